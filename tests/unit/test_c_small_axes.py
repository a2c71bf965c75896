"""Scalars, axes of one element and empty arrays in emitted C."""

from __future__ import annotations

import numpy as np
import pytest

from catgrad import Dim, NdArrayType, build, ops
from catgrad.backend import get_backend
from catgrad.functors import Expand, reverse
from catgrad.program import Program, evaluate, lower
from catgrad.testing import draw_arrays
from tests.unit.c.build import NEEDS_C

pytestmark = NEEDS_C
SCALAR, ONE, EMPTY, TABLE = (NdArrayType(shape) for shape in ((), (1,), (0,), (4, 1)))


def places_of_one(condition, x):
    return ops.cond(ops.sum(condition) > 0, lambda x: ops.argsort(x, 1), lambda x: ops.argsort(-x, 1), x)


def carried_and_empty(x, rows):
    return ops.scan(lambda carry, row: (carry * row, carry + row), x, rows)


CASES = {
    "places along an axis of one, in a branch": build(places_of_one, [ONE, NdArrayType((3, 1))]),
    "places of what is a number": build(lambda x: ops.argsort(ops.tanh(ops.sum(x, 0)), 0) * 2, [TABLE]),
    "an axis of one, sorted": build(lambda x: ops.sort(ops.tanh(ops.sum(x, 0)), 0)[0] * 2, [TABLE]),
    "a contraction of scalars": build(lambda x, y: ops.contract(x, y, 0), [SCALAR, SCALAR]),
    "a loop over empty rows": build(carried_and_empty, [EMPTY, NdArrayType((3, 0))]),
    "the reverse of a loop over empty rows": reverse(
        build(carried_and_empty, [EMPTY, NdArrayType((3, 0))]),
    ),
    "the reverse of a loop with an empty carry": reverse(
        build(lambda x: ops.repeat(lambda x: ops.tanh(x) * x, 3, x), [NdArrayType((2, 0))])
    ),
}


@pytest.fixture(scope="module")
def compiled():
    backend = get_backend("c")
    functions = [lower(Expand(backend.has)(term), f"f{i}") for i, term in enumerate(CASES.values())]
    return backend.emit(Program("small_axes", tuple(functions))).load()()


@pytest.mark.parametrize("name", CASES)
def test_small_axes(compiled, name):
    term = CASES[name]
    arrays = draw_arrays(tuple(term.source.table))
    found = getattr(compiled, f"f{list(CASES).index(name)}")(*arrays)
    for array, wanted in zip(found, evaluate(term, *arrays), strict=True):
        np.testing.assert_allclose(array, wanted, rtol=1e-6)


def test_scratch_memory_without_products():
    """A row of a symbolic size lies in scratch memory; nothing else here asks for it."""
    term = build(ops.softmax, [NdArrayType((Dim("n"), Dim("m")))])
    compiled = get_backend("c").emit(Program("rows", (lower(Expand(get_backend("c").has)(term)),))).load()()
    for shape in ((3, 5), (0, 5), (3, 1)):
        [x] = draw_arrays([NdArrayType(shape)])
        np.testing.assert_allclose(compiled.f(x)[0], evaluate(term, x)[0], rtol=1e-6)
