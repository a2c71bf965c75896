"""Concatenation, splitting, slicing and padding."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from catgrad import ops
from catgrad.dims import Dim, Size
from catgrad.frontends.torch.aten.operands import at, axes_of, common_dtype
from catgrad.frontends.torch.registry import aten, require
from catgrad.terms.structural import Constant
from catgrad.terms.var import Var


@aten("cat.default")
def concat(tensors: list[Var], dim: int = 0) -> Var:
    """Concatenate arrays; PyTorch ignores those of shape [0]."""
    arrays = [x for x in tensors if x.shape != (0,)] or tensors[:1]
    dtype = common_dtype(arrays)
    return ops.concat([ops.cast(x, dtype) for x in arrays], dim)


aten("split_with_sizes.default")(lambda x, sizes, dim=0: ops.split(x, sizes, dim))


@aten("split.Tensor")
def split(x: Var, size: Size, dim: int = 0) -> tuple[Var, ...]:
    """Split x into parts of one size, the last of which may be smaller."""
    length = x.shape[dim]
    sizes = [min(size, length - start) for start in range(0, length, size)] if length else [0]
    return ops.split(x, sizes, dim)


@aten("slice.Tensor")
def every(x: Var, dim: int = 0, start: Size | None = None, end: Size | None = None, step: int = 1) -> Var:
    """Slice: every step-th element along an axis from start to end."""
    (axis,) = axes_of(x, dim)
    begin, stop = _bounds(x.shape[axis], start, end)
    block = along(x, axis, begin, stop - begin)
    return block if step == 1 else _first_of_groups(block, axis, step)


@aten("select.int")
def select(x: Var, dim: int, index: int) -> Var:
    """Select one element along an axis, which is removed."""
    (axis,) = axes_of(x, dim)
    return ops.squeeze(along(x, axis, place_of(x.shape[axis], index), 1), axis)


@aten("unbind.int")
def unbind(x: Var, dim: int = 0) -> list[Var]:
    """Unstack the elements along an axis, which is removed."""
    return [select(x, dim, k) for k in range(x.shape[dim])]


@aten("slice_scatter.default")
def with_slice(
    x: Var, part: Var, dim: int = 0, start: Size | None = None, end: Size | None = None, step: int = 1
) -> Var:
    """Replace a slice of x by a part."""
    require(step == 1, "a slice that is assigned to must have step 1", f"it has {step}", "use torch.where")
    (axis,) = axes_of(x, dim)
    first, last = _bounds(x.shape[axis], start, end)
    before = along(x, axis, 0, first)
    after = along(x, axis, last, x.shape[axis] - last)
    return ops.concat([before, ops.cast(part, x.dtype), after], axis)


@aten("select_scatter.default")
def with_element(x: Var, part: Var, dim: int, index: int) -> Var:
    """Replace one element of x along an axis by a part."""
    (axis,) = axes_of(x, dim)
    place = place_of(x.shape[axis], index)
    return with_slice(x, ops.expand_dims(part, axis), axis, place, place + 1)


aten("copy.default")(lambda x, other, non_blocking=False: at(other, x.shape, x.dtype))


@aten("constant_pad_nd.default")
def pad(x: Var, margins: Sequence[Size], value: float = 0) -> Var:
    """Pad x with a number; margins of the last axis come first, and negative ones crop."""
    pairs = list(zip(margins[::2], margins[1::2], strict=True))[::-1]
    for axis, pair in enumerate(pairs, x.type.rank - len(pairs)):
        # A symbolic margin is at least 0, which is checked when the program runs.
        cut = [0 if isinstance(margin, Dim) else max(0, -margin) for margin in pair]
        added = [margin if isinstance(margin, Dim) else max(0, margin) for margin in pair]
        x = along(x, axis, cut[0], x.shape[axis] - sum(cut))
        ends = [_filled(x, axis, margin, value) for margin in added]
        x = ops.concat([*ends[:1], x, *ends[1:]], axis) if added != [0, 0] else x
    return x


def _bounds(length: Size, start: Size | None, end: Size | None) -> tuple[Size, Size]:
    """Return the first place of a slice and the one after its last, which is not before the first.

    Where the length is symbolic, torch.export has required that the bounds lie within.
    """
    if isinstance(length, int) and not isinstance(start, Dim) and not isinstance(end, Dim):
        begin, stop, _ = slice(start, end).indices(length)
        return begin, max(begin, stop)
    first = 0 if start is None else place_of(length, start)
    return first, length if end is None or end == sys.maxsize else place_of(length, end)


def place_of(length: Size, index: Size) -> Size:
    """Return an index that may count from the end as one from the beginning."""
    return length + index if isinstance(index, int) and index < 0 else index


def along(x: Var, axis: int, start: Size, size: Size) -> Var:
    """Slice a block along one axis."""
    if start == 0 and size == x.shape[axis]:
        return x
    starts = [start if k == axis else 0 for k in range(x.type.rank)]
    return ops.slice(x, starts, (*x.shape[:axis], size, *x.shape[axis + 1 :]))


def _first_of_groups(x: Var, axis: int, step: int) -> Var:
    """Select every step-th element: the first of each group, after padding the last group."""
    groups = -(-x.shape[axis] // step)
    missing = groups * step - x.shape[axis]
    filled = ops.pad(x, [(0, missing if k == axis else 0) for k in range(x.type.rank)])
    lead, rest = x.shape[:axis], x.shape[axis + 1 :]
    grouped = ops.reshape(filled, *lead, groups, step, *rest)
    return ops.squeeze(along(grouped, axis + 1, 0, 1), axis + 1)


def _filled(x: Var, axis: int, size: Size, value: float) -> Var:
    return Constant(x.type.with_shape((*x.shape[:axis], size, *x.shape[axis + 1 :])), value)()
