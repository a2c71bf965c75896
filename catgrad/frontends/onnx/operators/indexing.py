"""Elements and slices by index, and their replacement."""

from __future__ import annotations

from typing import Any

import numpy as np

from catgrad import ops
from catgrad.dims import Dim, Size, product
from catgrad.frontends.onnx.operators.operands import along, axis_of, fixed, literal, numbers_in
from catgrad.frontends.onnx.registry import onnx, require
from catgrad.frontends.onnx.types import Value
from catgrad.ops.shape import Shape
from catgrad.terms.var import Var
from catgrad.types import Array, Dtype


def from_front(index: Value, size: Size) -> Var:
    """Return indices counted from the front, of which negative ones count from the back."""
    if isinstance(index, np.ndarray):
        is_known = not isinstance(size, Dim)
        require(
            is_known or not index.size or index.min() >= 0,
            "an index into a symbolic axis must be ≥ 0",
            "one counts from the back",
            "fix the axis by `sizes`",
        )
        return literal(np.where(index < 0, index + size, index) if is_known else index)
    number = ops.broadcast(ops.number_of(size, index.dtype), index.shape)
    return ops.select(index < 0, index + number, index)


@onnx("Gather", since=13, known="index")
def gather(x: Var, index: Value, *, axis: int = 0) -> Var:
    """Return the slices of x at these indices along an axis."""
    axis = axis_of(x, axis)
    return ops.take(x, from_front(index, x.shape[axis]), axis)


@onnx("GatherElements", since=13)
def gather_elements(x: Var, index: Var, *, axis: int = 0) -> Var:
    """Return the elements of x at these indices along an axis."""
    axis = axis_of(x, axis)
    sizes = [n if k == axis else m for k, (n, m) in enumerate(zip(x.shape, index.shape, strict=True))]
    block = ops.slice(x, [0] * x.type.rank, sizes)
    return ops.take_along_axis(block, from_front(index, x.shape[axis]), axis)


def _flat_index(index: Var, sizes: Shape, batch: Shape) -> Any:
    """Return the row of each index tuple, in an array with the axes `batch` and `sizes` joined."""
    parts = ops.split(index, [1] * len(sizes), index.type.rank - 1)
    row = None
    for axis in range(len(batch)):
        place = along(ops.iota(batch[axis], index.dtype), index.shape[:-1], axis)
        row = place if row is None else row * int(fixed(batch, "a batch axis")[axis]) + place
    for size, part in zip(fixed(sizes, "an axis that is indexed with others"), parts, strict=True):
        place = from_front(ops.squeeze(part, part.type.rank - 1), size)
        row = place if row is None else row * size + place
    return row


@onnx("GatherND", since=13)
def gather_nd(x: Var, index: Var, *, batch_dims: int = 0) -> Var:
    """Return the slices of x at these index tuples."""
    b, (k,) = batch_dims, fixed(index.shape[-1:], "the length of an index")
    row = _flat_index(index, x.shape[b : b + k], x.shape[:b])
    rest = x.shape[b + k :]
    return ops.gather(ops.reshape(x, product(x.shape[: b + k]), *rest), row)


def _mode(reduction: str) -> None:
    require(
        reduction in ("none", "add"), "elements must be replaced or added", f"the reduction is {reduction!r}"
    )


@onnx("ScatterElements", since=(13, 16, 18))
def scatter_elements(x: Var, index: Var, values: Var, *, axis: int = 0, reduction: str = "none") -> Var:
    """Replace elements of x at these indices along an axis, or add to them."""
    _mode(reduction)
    axis = axis_of(x, axis)
    index = from_front(index, x.shape[axis])
    shape = tuple(x.shape[axis] if k == axis else n for k, n in enumerate(index.shape))
    if reduction == "add":
        sums = ops.scatter_add_along_axis(values, index, x.shape[axis], axis)
        margins = [(0, fixed((n - m,), "a margin")[0]) for n, m in zip(x.shape, shape, strict=True)]
        return x + ops.pad(sums, margins)
    require(
        shape == x.shape,
        "indices must have the shape of the array, except along the axis",
        f"they are {index.type} for {x.type}",
    )
    return ops.put_along_axis(x, index, values, axis)


@onnx("ScatterND", since=(13, 16, 18))
def scatter_nd(x: Var, index: Var, values: Var, *, reduction: str = "none") -> Var:
    """Replace slices of x at these index tuples, or add to them."""
    _mode(reduction)
    (k,) = fixed(index.shape[-1:], "the length of an index")
    rows, rest = product(x.shape[:k]), x.shape[k:]
    count = product(index.shape[:-1])
    row = ops.reshape(_flat_index(index, x.shape[:k], ()), count)
    flat, new = ops.reshape(x, rows, *rest), ops.reshape(values, count, *rest)
    y = flat + ops.scatter_add(new, row, rows) if reduction == "add" else ops.put(flat, row, new)
    return ops.reshape(y, *x.shape)


@onnx("ReverseSequence", since=(10, 28), static="lengths")
def reverse_sequence(x: Var, lengths: Array, *, batch_axis: int = 1, time_axis: int = 0) -> Var:
    """Reverse the first elements of each sequence of a batch, as many as its length."""
    time, batch = fixed((x.shape[time_axis], x.shape[batch_axis]), "an axis of sequences")
    places = np.tile(np.arange(time), (batch, 1))
    for row, length in zip(places, numbers_in(lengths), strict=True):
        row[:length] = row[:length][::-1]
    index = ops.array(places if batch_axis < time_axis else places.T, Dtype.int64)
    others = [k for k in range(x.type.rank) if k not in (batch_axis, time_axis)]
    return ops.take_along_axis(x, ops.broadcast(index, x.shape, others), time_axis)
