"""Arithmetic on indices agrees with arithmetic on their values, and the canonical form is unique."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import jinja2
from hypothesis import given
from hypothesis import strategies as st

from catgrad.dims import Dim
from catgrad.loops.ir.index import (
    ZERO,
    Index,
    Variable,
    extent,
    index,
    is_natural,
    modulo,
    quotient,
    split_below,
)
from catgrad.loops.lowering.index_maps import flat, unflat
from catgrad.loops.printing.expressions import Expressions
from catgrad.loops.reference import Interpreter
from catgrad.targets import get_backend

N = 3
"""The value of the symbol n wherever indices are computed."""
n = Dim("n")
SIZES = st.sampled_from([1, 2, 3, 4, 6, 7, n, 2 * n, 6 * n, n * n, n + 1, 2 * n - 1])


def value(of: Index, values: dict[Variable, int]) -> int:
    machine = Interpreter({"n": N})
    machine.values = dict(values)
    return machine.index(of)


@given(SIZES)
def test_a_place_counted_from_the_end_of_an_axis_is_within_it(size):
    """Flipped windows count so."""
    flipped = index(Variable(size)) * -1 + (size - 1)
    assert quotient(flipped, size) == ZERO
    assert modulo(flipped, size) == flipped


def number(size) -> int:
    return Interpreter({"n": N}).size(size)


def points(variables):
    """Yield all values of variables, for small extents."""
    for each in product(*(range(number(v.extent)) for v in variables)):
        yield dict(zip(variables, each, strict=True))


@st.composite
def variables(draw):
    return [Variable(draw(SIZES)) for _ in range(draw(st.integers(1, 3)))]


@st.composite
def indices(draw, of, depth=3):
    """Draw an index that is not negative, by any of the operations."""
    kind = draw(st.sampled_from("vcamqrf")) if depth else draw(st.sampled_from("vc"))
    if kind == "v":
        return index(draw(st.sampled_from(of)))
    if kind == "c":
        return Index((), draw(st.integers(0, 5)))
    if kind == "f":
        v = draw(st.sampled_from(of))
        return (index(v) * -1 + (v.extent - 1)) * draw(SIZES)
    inside = draw(indices(of, depth - 1))
    if kind == "a":
        return inside + draw(indices(of, depth - 1))
    size = draw(SIZES)
    return {"m": inside * size, "q": quotient(inside, size), "r": modulo(inside, size)}[kind]


@st.composite
def cases(draw, count=1):
    """Draw indices over the same variables, and values of the variables."""
    of = draw(variables())
    values = {v: draw(st.integers(0, number(v.extent) - 1)) for v in of}
    return [draw(indices(of)) for _ in range(count)], values


@given(cases(2), SIZES)
def test_sums_and_multiples(case, factor):
    (i, j), values = case
    assert value(i + j, values) == value(i, values) + value(j, values)
    assert value(i - j, values) == value(i, values) - value(j, values)
    assert value(i * factor, values) == value(i, values) * number(factor)


@given(cases(), SIZES)
def test_division(case, divisor):
    (i,), values = case
    assert value(quotient(i, divisor), values) == value(i, values) // number(divisor)
    assert value(modulo(i, divisor), values) == value(i, values) % number(divisor)


@given(cases(), SIZES)
def test_quotient_and_remainder_are_recombined(case, divisor):
    (i,), _ = case
    assert quotient(i, divisor) * divisor + modulo(i, divisor) == i


@given(cases(), st.integers(1, 12))
def test_terms_that_are_split_off_decide_no_quotient(case, divisor):
    (i,), values = case
    near, rest = split_below(i, divisor)
    low = value(near, values)
    assert 0 <= low < divisor and low + value(rest, values) == value(i, values)
    assert value(quotient(rest, divisor), values) == value(i, values) // divisor
    assert value(modulo(rest, divisor), values) + low == value(i, values) % divisor


def test_neighbours_of_a_whole_number_of_copies_decide_no_quotient():
    strip, near = Variable(8), Variable(8)
    assert split_below(index(strip) * 8 + index(near), 16) == (index(near), index(strip) * 8)
    assert split_below(index(strip) * 8 + index(near), 12)[0] == ZERO


@given(cases())
def test_bounds(case):
    (i,), values = case
    if i.greatest is not None:
        assert value(i, values) <= number(i.greatest)
    for atom, _ in i.terms:
        assert value(index(atom), values) < number(extent(atom))


@given(cases(3))
def test_substitution(case):
    (i, j, k), values = case
    inside = list(values)
    changed = {v: modulo(new, v.extent) for v, new in ((inside[0], j), (inside[-1], k))}
    new = {v: value(changed[v], values) if v in changed else values[v] for v in inside}
    assert value(i.substitute(changed), values) == value(i, new)


@given(st.data())
def test_equal_sums_have_equal_forms(data):
    of = [Variable(data.draw(st.integers(2, 4))) for _ in range(3)]
    i, j = (
        sum((index(v) * c for v, c in data.draw(st.permutations(terms))), Index((), constant))
        for terms, constant in [
            (
                list(zip(of, data.draw(st.tuples(*[st.integers(-1, 1)] * 3)), strict=True)),
                data.draw(st.integers(0, 1)),
            )
            for _ in range(2)
        ]
    )
    assert (i == j) == all(value(i, at) == value(j, at) for at in points(of))


@given(st.lists(SIZES, max_size=4))
def test_elements_are_recovered_from_flat_indices(shape):
    at = tuple(index(Variable(size)) for size in shape)
    assert unflat(flat(at, tuple(shape)), tuple(shape)) == at


@given(st.lists(SIZES, max_size=3), st.data())
def test_flat_indices_are_recovered_from_elements(shape, data):
    whole = 1
    for size in shape:
        whole = whole * size
    place = index(Variable(whole))
    assert flat(unflat(place, tuple(shape)), tuple(shape)) == place


C = get_backend("c").dialect
DIALECT = replace(C, macros={**C.macros, "divided": "{} // {}".format})
"""C, but for the sign of a division, which Jinja rounds as C does for numbers that are not negative."""


@given(cases())
def test_the_text_of_an_index_has_its_value(case):
    """Precedence puts parentheses where they are needed, and signs stay with what they belong to."""
    (i,), values = case
    expressions = Expressions(DIALECT, str)
    expressions.variables = {v: f"i{k}" for k, v in enumerate(values)}
    known = {expressions.variables[v]: number for v, number in values.items()} | {"n": N}
    assert jinja2.Environment().compile_expression(expressions.index(i))(**known) == value(i, values)


@given(st.data())
def test_a_natural_index_is_never_negative(data):
    own = data.draw(variables())
    difference = data.draw(indices(own)) - data.draw(indices(own)) + data.draw(st.integers(0, 9))
    if is_natural(difference):
        assert all(value(difference, point) >= 0 for point in points(own))


def test_the_last_of_some_less_each_is_natural():
    v = Variable(n)
    assert is_natural(index(v) * -1 + (n - 1))
    assert not is_natural(index(v) * -1 + (n - 2))
