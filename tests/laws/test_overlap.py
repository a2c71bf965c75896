"""Short rows end in a vector that overlaps the one before: no iteration runs alone, to the same results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catgrad import Dim, NdArrayType, build, ops
from catgrad.loops.ir.dependence import verify
from catgrad.loops.ir.index import Variable, index
from catgrad.loops.ir.nest import Accumulate, Kernel, Loop, Store, loops
from catgrad.loops.ir.scalar import Bounds, Buffer, Compute, Load, Space
from catgrad.loops.ir.steps import kernels
from catgrad.loops.passes.vectors.overlap import overlap
from catgrad.loops.passes.vectors.vectorise import vectorise
from catgrad.loops.reference import run
from catgrad.ops.arithmetic import Add
from catgrad.types import Dtype
from tests.kernels import VECTORS, compiled
from tests.nests import arrays_for, nests, run_in_order


def overlapped(kernel: Kernel) -> Kernel:
    found = overlap(vectorise(kernel, VECTORS), VECTORS)
    verify(found)
    return found


def extents(kernel: Kernel) -> list[int]:
    return [int(loop.variable.extent) for loop in loops(kernel.body)]


def doubled(extent: int, read: str = "x", op: Add | None = None, times: int = 4) -> Loop:
    """Return a loop that stores or accumulates in y what each element of x, or of y itself, doubles to."""
    i, arrays = (
        Variable(extent),
        {name: Buffer(name, NdArrayType((extent,)), Space.ARGUMENT) for name in "xy"},
    )
    x = Load(arrays[read], (index(i),))
    y = arrays["y"]
    for _ in range(times):
        x = Compute(Add(), Dtype.float32, (x, x))
    return Loop(i, [Accumulate(y, (index(i),), op, x) if op else Store(y, (index(i),), x)])


@settings(suppress_health_check=list(HealthCheck), max_examples=60)
@given(nests(), st.integers(0, 9))
def test_random_kernels_keep_their_results(lowered, seed):
    arrays = arrays_for(lowered, seed)
    for found, wanted in zip(
        run_in_order(lowered.map_kernels(overlapped), arrays), run_in_order(lowered, arrays), strict=True
    ):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("extent", [5, 6, 7, 9, 10, 11, 13, 14, 15, 18, 30, 31])
def test_two_vectors_cover_a_row(extent):
    width = 1 << (extent.bit_length() - 1)
    assert extents(overlapped(Kernel([doubled(extent)]))) == [2, width]


@pytest.mark.parametrize("extent", [3, 4, 8, 12, 16, 20, 28, 33, 150])
def test_other_rows_are_left_as_they_are(extent):
    assert extents(overlapped(Kernel([doubled(extent)]))) == [extent]


@pytest.mark.parametrize("loop", [doubled(14, "y"), doubled(14, "x", Add())], ids=["in place", "sum"])
def test_no_iteration_runs_twice_that_changes_what_it_reads(loop):
    assert extents(overlapped(Kernel([loop]))) == [14]


def test_loops_with_conditions_are_left_as_they_are():
    loop = doubled(15)
    bounds = Bounds(index(loop.variable), Dim("n"), False, True)
    assert extents(overlapped(Kernel([replace(loop, conditions=(bounds,))]))) == [15]


def test_short_expressions_are_left_to_compilers():
    assert extents(overlapped(Kernel([doubled(14, times=2)]))) == [14]


@pytest.mark.parametrize("side", [10, 14, 18, 28])
def test_pooling_has_whole_vectors_and_the_same_results(side):
    term = build(lambda x: ops.max_pool(x, 2), [NdArrayType((2, 3, side, side))])
    lowered = compiled(term)
    done = lowered.map_kernels(VECTORS.finish)
    vectors = [loop for k in kernels(done.steps) for loop in loops(k.body) if loop.axis.is_vector]
    assert all(int(loop.variable.extent) % 4 == 0 for loop in vectors)
    x = np.random.default_rng(0).standard_normal((2, 3, side, side)).astype(np.float32)
    [found] = run(done, x)
    np.testing.assert_array_equal(found, x.reshape(2, 3, side // 2, 2, side // 2, 2).max((3, 5)))
