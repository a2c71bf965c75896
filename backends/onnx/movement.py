"""Constants, data movement and indexing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from catgrad.dims import Size
from catgrad.ops.extrema import Iota
from catgrad.ops.gather import Gather, ScatterAdd
from catgrad.ops.literal import ArrayLiteral
from catgrad.ops.reduce import Broadcast
from catgrad.ops.shape import Reshape
from catgrad.ops.slices import Flip, Pad, Slice, Split
from catgrad.ops.take import ScatterAddAlongAxis, TakeAlongAxis
from catgrad.ops.window import Window
from catgrad.terms.op import Op
from catgrad.terms.structural import Constant, NumberOf
from catgrad.types import Dtype

from .graph import LAST, Graph, Value
from .rules import emits, one_operator

one_operator(lambda op: {"axis": op.axis}, Concat="Concat")
one_operator(lambda op: {"perm": list(op.order)}, Permute="Transpose")
one_operator(lambda op: {"perm": [1, 0]}, Transpose="Transpose")


@emits("Constant")
def constant(g: Graph, op: Constant) -> str:
    """An array filled with one number."""
    type = op.array_type
    if type.rank == 0:
        return g.constant(op.value, type.dtype)
    return g.add("Expand", g.constant(op.value, type.dtype), g.shape(type.shape))


@emits("ArrayLiteral")
def literal(g: Graph, op: ArrayLiteral) -> str:
    """A given array."""
    return g.constant(op.ref(), op.array_type.dtype)


@emits("NumberOf")
def number_of(g: Graph, op: NumberOf) -> str:
    """A size as a number."""
    number = g.number(op.size)
    return number if op.dtype is Dtype.int64 else g.cast(number, op.dtype)


@emits("Iota")
def iota(g: Graph, op: Iota) -> str:
    """0, 1, …"""
    numbers = g.add("Range", g.constant(0), g.number(op.size), g.constant(1))
    return numbers if op.dtype is Dtype.int64 else g.cast(numbers, op.dtype)


@emits("Reshape")
def reshape(g: Graph, op: Reshape, x: Value) -> str:
    """Another shape of the same elements."""
    return g.add("Reshape", x, g.shape(op.after), allowzero=1)


@emits("Contiguous")
def contiguous(g: Graph, op: Op, x: Value) -> str:
    """Arrays of ONNX are contiguous."""
    return x


@emits("Broadcast")
def broadcast(g: Graph, op: Broadcast, x: Value) -> str:
    """Copies along new axes."""
    wide = g.add("Unsqueeze", x, g.constant(list(op.axes))) if x.type.rank else x
    return g.add("Expand", wide, g.shape(op.shape))


@emits("Slice")
def slices(g: Graph, op: Slice, x: Value) -> str:
    """A block."""
    ends = [start + size for start, size in zip(op.starts, op.sizes, strict=True)]
    return g.add("Slice", x, g.constant(list(op.starts)), g.shape(ends)) if ends else x


@emits("Pad")
def pad(g: Graph, op: Pad, x: Value) -> str:
    """Zeros around a block."""
    after = [w - n - s for w, n, s in zip(op.whole, op.sizes, op.starts, strict=True)]
    return g.add("Pad", x, g.shape([*op.starts, *after])) if after else x


@emits("Split")
def split(g: Graph, op: Split, x: Value) -> list[str]:
    """Parts along an axis."""
    return g.several("Split", len(op.sizes), x, g.shape(op.sizes), axis=op.axis)


@emits("Flip")
def flip(g: Graph, op: Flip, x: Value) -> str:
    """Axes reversed."""
    n = len(op.axes)
    starts, ends, steps = ([number] * n for number in (-1, -LAST, -1))
    return g.add("Slice", x, *map(g.constant, (starts, ends, list(op.axes), steps))) if n else x


def _refused(g: Graph, index: Value, size: Size) -> str:
    """Move negative indices, which ONNX counts from the back, beyond the end, where they are errors."""
    end = g.number(size) if index.dtype is Dtype.int64 else g.cast(g.number(size), index.dtype)
    return g.add("Where", g.add("Less", index, g.like(index, 0)), end, index)


@emits("Gather")
def gather(g: Graph, op: Gather, x: Value, index: Value) -> str:
    """Rows by their indices."""
    return g.add("Gather", x, _refused(g, index, op.rows), axis=0)


def _zeros(g: Graph, x: Value, shape: Sequence[Size]) -> str:
    return g.add("Expand", g.like(x, 0), g.shape(shape))


@emits("ScatterAdd")
def scatter_add(g: Graph, op: ScatterAdd, x: Value, index: Value) -> str:
    """Sums of rows by index."""
    zeros = _zeros(g, x, (op.rows, *x.type.shape[index.type.rank :]))
    rows = g.add("Unsqueeze", g.cast(_refused(g, index, op.rows), Dtype.int64), g.constant([-1]))
    return g.add("ScatterND", zeros, rows, x, reduction="add")


@emits("TakeAlongAxis")
def take_along_axis(g: Graph, op: TakeAlongAxis, x: Value, index: Value) -> str:
    """Elements by their indices."""
    return g.add("GatherElements", x, _refused(g, index, op.size), axis=op.axis)


@emits("ScatterAddAlongAxis")
def scatter_add_along_axis(g: Graph, op: ScatterAddAlongAxis, x: Value, index: Value) -> str:
    """Sums of elements by index."""
    shape = [op.size if k == op.axis % x.type.rank else n for k, n in enumerate(x.type.shape)]
    zeros = _zeros(g, x, shape)
    return g.add("ScatterElements", zeros, _refused(g, index, op.size), x, axis=op.axis, reduction="add")


def _places(op: Any, k: int) -> Any:
    """Return the places of the elements of all windows along one axis, window by window."""
    count = op.windowed[op.axes[k]]
    starts, offsets = np.arange(count) * op.strides[k], np.arange(op.sizes[k]) * op.dilations[k]
    return starts[:, None] + offsets


@emits("Window")
def window(g: Graph, op: Window, x: Value) -> str:
    """Windows: along each axis, elements by constant indices, whose second axis is moved to the end."""
    y: str = x
    for k, axis in enumerate(op.axes):
        y = g.add("Gather", y, g.constant(_places(op, k)), axis=axis)
        rank = len(op.shape) + k + 1
        y = g.add("Transpose", y, perm=[*(n for n in range(rank) if n != axis + 1), axis + 1])
    return y


@emits("Fold")
def fold(g: Graph, op: Any, x: Value) -> str:
    """Sums of windows: along each axis, from the last, the window's axis joins its own and is added up."""
    y, shape = str(x), list(op.windowed)
    for k in reversed(range(len(op.axes))):
        axis, rank = op.axes[k], len(shape)
        y = g.add("Transpose", y, perm=[*range(axis + 1), rank - 1, *range(axis + 1, rank - 1)])
        places = _places(op, k)
        shape = [*shape[:axis], places.size, *shape[axis + 1 : -1]]
        y = g.add("Reshape", y, g.shape(shape), allowzero=1)
        y = _added(g, x, y, axis, places.reshape(-1), shape, op.shape[axis])
        shape[axis] = op.shape[axis]
    return y


def _added(g: Graph, x: Value, y: str, axis: int, places: Any, shape: Any, size: int) -> str:
    """Add up slices along an axis by constant places."""
    order = [axis, *(k for k in range(len(shape)) if k != axis)]
    rows = g.add("Transpose", y, perm=order)
    zeros = _zeros(g, x, [size, *(shape[k] for k in order[1:])])
    total = g.add("ScatterND", zeros, g.constant(places[:, None]), rows, reduction="add")
    return g.add("Transpose", total, perm=[order.index(k) for k in range(len(shape))])
