"""Costs are a homomorphism: of compositions they add up, and they commute with substitution of sizes."""

from __future__ import annotations

from dataclasses import astuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catgrad import Dim, Dtype, NdArrayType, build, ops
from catgrad.dims import upper_bound
from catgrad.functors import Expand
from catgrad.learn.reports.costs import prepared
from catgrad.ops.control import Cond
from catgrad.programs.cost import Cost, costs, total
from catgrad.programs.program import lower, nest, straighten
from catgrad.terms.block import any_operation
from catgrad.terms.term import Term, substitute
from catgrad.types import symbols
from tests.programs import programs
from tests.strategies import STEPS, TYPES, random_terms

N = Dim("n")
BATCH = NdArrayType((N, 4))


def cost(term: Term) -> Cost:
    """Count as written, without any pass."""

    def nested(function):
        return nest(function, nested)

    return total(costs(nested(straighten(Expand()(term)))))


def flops(function, *types) -> int:
    return total(costs(prepared(lower(Expand()(build(function, list(types))))))).flops


@given(st.data())
def test_costs_of_compositions_add_up(data):
    middle = data.draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=2))
    f = data.draw(random_terms(STEPS, None, middle, 5))
    g = data.draw(random_terms(STEPS, middle, None, 5))
    assert cost(f @ g) == cost(f) + cost(g)
    assert cost(f >> g).flops == cost(f).flops + cost(g).flops


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_costs_commute_with_substitution(program):
    sizes = {name: 3 + place for place, name in enumerate(symbols(tuple(program.term.source.table)))}
    symbolic, fixed = cost(program.term), cost(substitute(program.term, sizes))
    bounded = any_operation(program.term, lambda op: isinstance(op, Cond))
    for bound, count in zip(astuple(symbolic), astuple(fixed), strict=True):
        found = bound.substitute(sizes) if isinstance(bound, Dim) else bound
        assert found >= count if bounded else found == count


def test_products_count_two_for_each_multiplication():
    assert flops(lambda x, w: x @ w, BATCH, NdArrayType((4, 5))) == N * 40
    assert flops(lambda x: ops.sum(x), BATCH) == N * 4
    assert flops(lambda x: x * x + x, BATCH) == N * 8
    assert flops(lambda x: ops.transpose(x), BATCH) == 0
    assert flops(lambda x: x + 1, NdArrayType((7,), Dtype.int64)) == 0


def test_loops_multiply_by_their_length_and_branches_take_the_greater_cost():
    x = NdArrayType((10,))
    assert flops(lambda x: ops.repeat(lambda c: ops.exp(c) * c, 5, x), x) == 100
    length = NdArrayType((N, 10))
    assert flops(lambda xs, x: ops.scan(lambda c, r: (c * r, ()), x, xs)[0], length, x) == N * 10

    def branch(x, c):
        return ops.cond(c, lambda x: ops.exp(x), lambda x: ops.exp(x) * x + x, x)

    assert flops(branch, x, NdArrayType((), Dtype.bool)) == 30


def test_views_are_read_at_the_size_of_their_arrays():
    x, b = NdArrayType((N, 10)), NdArrayType((10,))
    term = build(lambda x, b: x + ops.broadcast(b, (N, 10)), [x, b])
    assert cost(term).bytes == N * 80 + 40
    flipped = build(lambda x: ops.exp(ops.transpose(x)), [x])
    assert cost(flipped).bytes == N * 80
    part = build(lambda x: ops.exp(ops.slice(x, (0, 0), (N, 5))), [x])
    assert cost(part).bytes == N * 40


def test_the_bound_of_sizes_is_that_of_their_coefficients():
    assert upper_bound(3, 5) == 5
    assert upper_bound(2 * N + 1, N + 7) == 2 * N + 7
    assert upper_bound(N, 0) == N


@pytest.mark.parametrize("count", [0, 3])
def test_costs_of_runs_are_multiples(count):
    assert Cost(1, 2, 3).times(count) == total([Cost(1, 2, 3)] * count)
