"""Constant folding of what does not depend on the inputs, with size 1 along axes where numbers are equal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from catgrad.dims import numbers
from catgrad.ops.fake_quantisation import FakeQuantise
from catgrad.ops.reduce import Broadcast
from catgrad.quantisation.values import Known, Value
from catgrad.terms.block import blocks
from catgrad.terms.op import Op
from catgrad.terms.structural import Constant
from catgrad.types import Array, NdArrayType


def computed(
    op: Op, inputs: Sequence[Value], types: Sequence[NdArrayType], outputs: Sequence[NdArrayType]
) -> list[Known] | None:
    """Return the results of an operation on known numbers; None if one is unknown, or a size symbolic."""
    known = [value for value in inputs if isinstance(value, Known)]
    if len(known) < len(inputs) or blocks(op):
        return None
    name = next((value.name for value in known if value.name), "")
    if isinstance(op, Constant):
        return [Known(np.full((1,) * op.array_type.rank, op.value, op.array_type.dtype.numpy))]
    if isinstance(op, Broadcast):
        grid = known[0].grid
        spread = None if grid is None else np.expand_dims(grid, op.axes)
        return [Known(np.expand_dims(known[0].array, op.axes), name, spread)]
    arrays: list[Array] = [value.array for value in known]
    if not op.elementwise:
        if any(not isinstance(size, int) for type in (*types, *outputs) for size in type.shape):
            return None
        arrays = [
            np.broadcast_to(array, numbers(type.shape)) for array, type in zip(arrays, types, strict=True)
        ]
    with np.errstate(all="ignore"):
        results = op.compute(*arrays)
    several = results if isinstance(results, tuple) else (results,)
    grids = _grids(op, arrays, known[0].grid if known else None) or [None] * len(several)
    return [
        Known(np.asarray(y, t.dtype.numpy), name, grid)
        for y, t, grid in zip(several, outputs, grids, strict=True)
    ]


def _grids(op: Op, arrays: Sequence[Array], grid: Array | None) -> Sequence[Array | None] | None:
    """Return the scales of the results if the operation rounds to a grid, or moves numbers on one."""
    if isinstance(op, FakeQuantise):
        return [op.spread(arrays[1], arrays[0].ndim)]
    if grid is not None and op.rearranges:
        moved = op.compute(np.broadcast_to(grid, arrays[0].shape))
        return moved if isinstance(moved, tuple) else [moved]
    return None
