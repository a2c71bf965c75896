"""Sums over short rows have a partial sum for each element of a row: lanes are added up once, at the end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from catgrad import Dim, NdArrayType, build, ops
from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.nest import Accumulate, Item, Loop, Store
from catgrad.loops.ir.steps import kernels
from catgrad.loops.reference import run
from catgrad.ops.conv import ConvWeight
from tests.kernels import VECTORS, compiled


def of_channels(side: int, stride: int, batch):
    """Return the gradient of the weights of a convolution of each channel alone, and types of its inputs."""
    op = ConvWeight((stride, stride), (0, 0), (1, 1), 3, (3, 3))
    padded = (side - 1) * stride + 3
    return op, [NdArrayType((batch, 3, padded, padded)), NdArrayType((batch, 3, side, side))]


def sums_of_lanes(items: Sequence[Item], rows: int = 1) -> int:
    """Return the most rows whose lanes are added up one after the other, to one sum."""
    most = 0
    for item in items:
        if isinstance(item, Loop):
            extent = item.variable.extent
            again = rows * (extent if isinstance(extent, int) else 100)
            begins = any(isinstance(s, Store) for s in item.body)
            is_sum = item.axis is not Axis.SERIAL and any(
                isinstance(s, Accumulate) and s.buffer.is_register for s in item.body
            )
            most = max(most, rows if is_sum else sums_of_lanes(item.body, 1 if begins else again))
    return most


@pytest.mark.parametrize("batch", [2, Dim("batch")], ids=str)
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("side", [2, 4, 7, 16])
def test_gradients_of_filters_of_one_channel_are_those_of_the_definition(side, stride, batch):
    op, types = of_channels(side, stride, batch)
    lowered = compiled(build(op, types))
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-4, 5, (2, *t.shape[1:])).astype(np.float32) for t in types]
    for shuffled in (False, True):
        [found] = run(lowered, *arrays, shuffled=shuffled)
        np.testing.assert_array_equal(found, op.ref(*arrays))


@pytest.mark.parametrize("batch", [16, Dim("batch")], ids=str)
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("side", [8, 14, 16, 32, 64])
def test_lanes_are_added_up_once_for_all_rows(side, stride, batch):
    lowered = compiled(build(*of_channels(side, stride, batch)))
    for kernel in kernels(lowered.steps):
        assert sums_of_lanes(VECTORS.finish(kernel).body) <= 1


def test_an_array_that_does_not_depend_on_the_elements_of_a_row_is_no_sum_over_rows():
    def repeated(x):
        return ops.sum(ops.broadcast(x, (8, 4, 16), (2,)), (0, 2))

    lowered = compiled(build(repeated, [NdArrayType((8, 4))]))
    assert not any(b.type.shape[-1:] == (16,) for k in kernels(lowered.steps) for b, _ in k.writes)


def of_rows(batch, row: int):
    """Return sums over all but the middle axis, of elements and of their squares, and the elements' type."""
    return (lambda x: (ops.sum(x, (0, 2)), ops.sum(x * x, (0, 2)))), [NdArrayType((batch, 3, row))]


def adds_up_within_rows(items: Sequence[Item], is_row: bool) -> bool:
    """Tell whether a compiler adds up the lanes of a vector for each row: those of free axes are three."""
    every = [item for item in items if isinstance(item, Loop)]
    adds = [
        s for loop in every if loop.axis is not Axis.SERIAL for s in loop.body if isinstance(s, Accumulate)
    ]
    if is_row and any(s.buffer.is_register for s in adds):
        return True
    return any(adds_up_within_rows(loop.body, is_row or loop.variable.extent != 3) for loop in every)


@pytest.mark.parametrize("batch", [16, 64, Dim("batch")], ids=str)
@pytest.mark.parametrize("row", [32, 64, 256])
def test_sums_over_rows_stay_in_lanes_until_the_last_row(row, batch):
    lowered = compiled(build(*of_rows(batch, row)))
    for kernel in kernels(lowered.steps):
        assert not adds_up_within_rows(VECTORS.finish(kernel).body, is_row=False)


@pytest.mark.parametrize("batch", [1, 16, 64, Dim("batch")], ids=str)
@pytest.mark.parametrize("row", [32, 48, 256])
def test_sums_in_lanes_are_those_of_the_definition(row, batch):
    lowered = compiled(build(*of_rows(batch, row)))
    count = batch if isinstance(batch, int) else 5
    x = np.random.default_rng(0).integers(-4, 5, (count, 3, row)).astype(np.float32)
    for shuffled in (False, True):
        for found, wanted in zip(run(lowered, x, shuffled=shuffled), (x, x * x), strict=True):
            np.testing.assert_array_equal(found, wanted.sum((0, 2)))


def test_late_terms_of_a_sum_of_any_number_of_rows_are_not_lost():
    x = np.full((2**9, 1, 32), 1 / 3, np.float32)
    [found, _] = run(compiled(build(*of_rows(Dim("batch"), 32))), np.broadcast_to(x, (2**9, 3, 32)))
    np.testing.assert_allclose(found, x.size * np.float64(x[0, 0, 0]), rtol=1e-7)
