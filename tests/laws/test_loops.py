"""Lowered to kernels, a function means what it meant, and every pass over kernels keeps that."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catgrad import Dim, Dtype, NdArrayType, build, ops
from catgrad.backend import TOLERANCE
from catgrad.functors import Expand, reverse
from catgrad.loops.ir.nest import Kernel, statements
from catgrad.loops.ir.steps import decisive, kernels
from catgrad.loops.lower import lower, staged
from catgrad.loops.passes.fuse import fused, shrink
from catgrad.loops.passes.lanes import widened as lanes
from catgrad.loops.passes.tidy import tidy
from catgrad.programs.program import evaluate, interpret
from catgrad.programs.program import lower as straight
from catgrad.testing import Case, draw_arrays, operation_cases
from catgrad.types import widened
from tests.differential import outcome, pruned
from tests.kernels import has, prepared, run
from tests.programs import programs
from tests.strategies import float_terms, integer_terms, integers_for

EXPAND = Expand(has)


def function_of(term):
    return prepared(straight(EXPAND(term)))


def apart(items):
    """Every nest as a kernel of its own."""
    return [Kernel([item]) for item in items]


def close(found, wanted, tolerance=1e-5):
    for x, y in zip(found, wanted, strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(widened(x), widened(y), rtol=tolerance, atol=tolerance)


def equal(found, wanted):
    return all(np.array_equal(x, y) and x.dtype == y.dtype for x, y in zip(found, wanted, strict=True))


@pytest.mark.parametrize("case", operation_cases(), ids=str)
def test_kernels_of_operations_mean_what_the_operations_do(case: Case):
    arrays = draw_arrays(tuple(case.term.source.table), case.domain)
    wanted = interpret(straight(case.term), *arrays)
    lowered = lower(function_of(case.term))
    for result, reference, type in zip(run(lowered, *arrays), wanted, case.term.target.table, strict=True):
        assert result.shape == reference.shape
        close([result], [reference], TOLERANCE.get(type.dtype.value, 0))
    assert_no_dead_stores(lowered)


def assert_no_dead_stores(lowered):
    parts = [s for kernel in kernels(lowered.steps) for s in statements(kernel.body)]
    read = {array for s in parts for array, _ in s.reads}
    written = {array for s in parts for array, _ in s.writes}
    assert written <= {*read, *lowered.results, *decisive(lowered.steps)}


@given(integer_terms(size=10), st.integers(0, 99))
def test_kernels_of_whole_numbers_mean_the_same(term, seed):
    arrays = integers_for(term, seed)
    assert equal(run(lower(function_of(term)), *arrays), interpret(straight(term), *arrays))


@given(float_terms(size=10), st.integers(0, 99))
def test_kernels_of_reverses_mean_the_same(term, seed):
    term = reverse(term)
    arrays = draw_arrays(tuple(term.source.table), (-1.0, 1.0), seed)
    close(run(lower(function_of(term)), *arrays), interpret(straight(term), *arrays), 1e-4)


@given(float_terms(size=10), st.integers(0, 99))
def test_every_pass_over_kernels_keeps_the_meaning(term, seed):
    """Bit for bit: passes move sums, and change the order of none."""
    function = function_of(reverse(term))
    arrays = draw_arrays(function.argument_types, (-1.0, 1.0), seed)
    wanted = run(staged(function, fuse=apart), *arrays)
    lowered = staged(function, fuse=fused)
    assert_same(run(lowered, *arrays), wanted)
    shrink(kernels(lowered.steps), decisive(lowered.steps))
    assert_same(run(lowered, *arrays), wanted)
    tidy(kernels(lowered.steps))
    assert_same(run(lowered, *arrays), wanted)


@pytest.mark.parametrize("rows", [15, 16, 35])
def test_rows_side_by_side_keep_the_meaning(rows):
    def net(x, w, v):
        h = ops.tanh(x @ w)
        return ops.mean(ops.square(ops.softmax(h @ v)))

    term = reverse(build(net, [NdArrayType((rows, 4)), NdArrayType((4, 5)), NdArrayType((5, 3))]))
    function, arrays = function_of(term), draw_arrays(tuple(term.source.table), (-1.0, 1.0))
    lowered = staged(function)
    every = kernels(lowered.steps)
    shrink(every, decisive(lowered.steps))
    wanted, before = run(lowered, *arrays), [list(kernel.body) for kernel in every]
    for kernel in every:
        lanes(kernel)
    assert (before != [kernel.body for kernel in every]) == (rows >= 16)
    close(run(lowered, *arrays), wanted)
    shrink(every, decisive(lowered.steps))
    close(run(lowered, *arrays), wanted)


@given(float_terms(size=10), st.integers(0, 99))
def test_iterations_of_parallel_loops_may_come_in_any_order(term, seed):
    function = function_of(reverse(term))
    arrays = draw_arrays(function.argument_types, (-1.0, 1.0), seed)
    assert_same(run(lower(function), *arrays, shuffled=True), run(lower(function), *arrays))


@pytest.mark.parametrize(
    "moved",
    [
        lambda x: ops.flip(ops.reshape(ops.transpose(x), 6)),
        lambda x: ops.window(ops.reshape(ops.transpose(x), 6), (0,), (1,), (5,), (1,)),
        lambda x: ops.slice(ops.flip(ops.reshape(ops.transpose(x), 3, 2), (0,)), (1, 0), (2, 2)),
    ],
)
def test_indices_that_are_divided_are_not_negative(moved):
    term = build(moved, [NdArrayType((2, 3))])
    arrays = draw_arrays(tuple(term.source.table))
    assert equal(run(lower(function_of(term)), *arrays), interpret(straight(term), *arrays))


@pytest.mark.parametrize(
    "read",
    [
        lambda y: ops.flip(y, (0,)),
        lambda y: ops.slice(ops.concat([y, y], 0), (2, 0), (5, 5)),
        lambda y: ops.transpose(y),
        lambda y: ops.reshape(ops.slice(ops.reshape(y, 25), (3,), (20,)), 4, 5),
        lambda y: y - ops.broadcast(ops.max(y, 0), (5, 5)),
    ],
)
def test_nests_that_read_what_other_turns_write_stay_apart(read):
    def both(x):
        y = ops.exp(ops.tanh(x))
        return y, read(y) * 2

    term = build(both, [NdArrayType((5, 5))])
    arrays = draw_arrays(tuple(term.source.table))
    for shuffled in (False, True):
        close(run(lower(function_of(term)), *arrays, shuffled=shuffled), interpret(straight(term), *arrays))


def test_rows_of_a_symbolic_size_turned_round():
    n = Dim("n")

    def turned(x, y):
        rows = ops.flip(ops.reshape(ops.permute(x, 1, 0), 4, n), (0,))
        return ops.slice(rows, (0, 0), (3, n)) + ops.broadcast(y, (3, n))

    term = build(turned, [NdArrayType((2 * n, 2)), NdArrayType((n,))])
    arrays = [np.arange(12, dtype=np.float32).reshape(6, 2), np.zeros(3, np.float32)]
    assert equal(run(lower(function_of(term)), *arrays), interpret(straight(term), *arrays))


def assert_same(found, wanted):
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(x, y)


@settings(suppress_health_check=list(HealthCheck))
@given(programs())
def test_kernels_of_random_programs_stay_within_their_arrays(program):
    """The interpreter asserts it; where an index lies outside, kernels fail before they use it."""
    term = pruned(program.term)
    found, wanted = (
        outcome(lambda: run(lower(function_of(term)), *program.inputs, shuffled=True)),
        outcome(lambda: interpret(straight(term), *program.inputs)),
    )
    assert isinstance(found, list) or (isinstance(found, IndexError) and isinstance(wanted, IndexError))


@pytest.mark.parametrize("number", [0.1, 4e6])
def test_no_index_is_used_before_it_is_checked(number):
    """Sums at computed places joined the loop that finds the greatest, which comes before the check."""

    def both(x, number):
        sums = ops.broadcast(ops.sum(ops.broadcast(number, (3, 4)), 0), (5, 4), [0])
        return ops.argmax(x, 1), ops.scatter_add_along_axis(x, ops.cast(sums, Dtype.int64), 2, 1)

    term = build(both, [NdArrayType((5, 4)), NdArrayType(())])
    arrays = np.ones((5, 4), np.float32), np.float32(number)
    found, wanted = (
        outcome(lambda: run(lower(function_of(term)), *arrays)),
        outcome(lambda: evaluate(term, *arrays)),
    )
    assert type(found) is type(wanted)
    assert isinstance(found, IndexError) or equal(found, wanted)
