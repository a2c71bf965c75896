"""Sums over rows that lie apart stay in lanes until the last row, and these are added up as a tree."""

from __future__ import annotations

import numpy as np
import pytest

from catgrad import NdArrayType, build, ops
from catgrad.loops.ir.dependence import verify
from catgrad.loops.ir.nest import Accumulate, Item, Loop, loops
from catgrad.loops.ir.steps import kernels
from catgrad.loops.reference import run
from catgrad.targets import get_backend
from catgrad.testing import run_on
from tests.kernels import SCALARS, VECTORS, compiled


def moments(x):
    """Return two sums over all but the second axis, in one pass."""
    return ops.sum(x, (0, 2, 3)), ops.sum(x * x, (0, 2, 3))


def finished(term, machine=VECTORS):
    done = compiled(term, machine).map_kernels(machine.finish)
    for kernel in kernels(done.steps):
        verify(kernel)
    return done


def is_sum(item: Item) -> bool:
    return isinstance(item, Accumulate)


def innermost_sums(lowered) -> list[Loop]:
    every = [loop for kernel in kernels(lowered.steps) for loop in loops(kernel.body)]
    return [loop for loop in every if loop.axis.is_vector and any(map(is_sum, loop.body))]


@pytest.mark.parametrize("sides", [(4, 8), (8, 8), (16, 16)], ids=str)
def test_all_sums_over_rows_are_of_lanes(sides):
    lowered = finished(build(moments, [NdArrayType((3, 5, *sides))]))
    [loop] = innermost_sums(lowered)
    assert loop.variable.extent == 16
    assert not any(s.buffer.is_register for s in filter(is_sum, loop.body))
    x = np.random.default_rng(0).integers(-4, 5, (3, 5, *sides)).astype(np.float32)
    for shuffled in (False, True):
        for found, wanted in zip(run(lowered, x, shuffled=shuffled), moments_of(x), strict=True):
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("sides", [(4, 4), (3, 7), (32, 32)], ids=str)
def test_rows_of_one_vector_long_rows_and_rows_of_no_whole_vectors_are_left(sides):
    [loop] = innermost_sums(finished(build(moments, [NdArrayType((3, 5, *sides))])))
    assert all(s.buffer.is_register for s in filter(is_sum, loop.body))


def test_machines_without_vectors_have_no_lanes():
    lowered = finished(build(moments, [NdArrayType((3, 5, 8, 8))]), SCALARS)
    assert all(loop.variable.extent != 16 for kernel in kernels(lowered.steps) for loop in loops(kernel.body))


def moments_of(x):
    return x.sum((0, 2, 3)), (x * x).sum((0, 2, 3))


@pytest.mark.skipif(bool(get_backend("c").missing()), reason="there is no C compiler")
@pytest.mark.parametrize("sides", [(4, 8), (16, 16)], ids=str)
def test_sums_in_c_are_those_of_numpy(sides):
    x = np.random.default_rng(1).standard_normal((7, 3, *sides)).astype(np.float32)
    term = build(moments, [NdArrayType(x.shape)])
    for found, wanted in zip(run_on(get_backend("c"), term, x), moments_of(x), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
