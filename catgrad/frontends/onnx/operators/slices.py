"""Parts of arrays, and margins around them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from catgrad import ops
from catgrad.dims import Dim, Size
from catgrad.frontends.onnx.operators.operands import axis_of, fixed, full, literal, numbers_in
from catgrad.frontends.onnx.registry import onnx, require
from catgrad.frontends.onnx.types import Value
from catgrad.ops.shape import normalised
from catgrad.terms.structural import Constant
from catgrad.terms.var import Var
from catgrad.types import Array, Dtype, NdArrayType

END = 2**30
"""A number that stands for the end of an axis, as greater ones do."""


@onnx("Pad", since=(13, 18, 19, 21, 23, 24, 25), static="pads axes", known="value")
def pad(
    x: Var, pads: Array, value: Value | None = None, axes: Array | None = None, *, mode: str = "constant"
) -> Var:
    """Pad before and after axes, by a number or by elements; negative numbers remove elements."""
    margins = [(0, 0)] * x.type.rank
    chosen = range(x.type.rank) if axes is None else [axis_of(x, a) for a in numbers_in(axes)]
    around = fixed(numbers_in(pads), "a margin")
    for axis, before, after in zip(chosen, around, around[len(around) // 2 :], strict=False):
        margins[axis] = (before, after)
    x = _cropped(x, margins)
    positive = [(max(0, before), max(0, after)) for before, after in margins]
    if mode == "constant":
        return padded(x, positive, 0 if value is None else value)
    for axis, margin in enumerate(positive):
        if any(margin):
            (size,) = fixed(x.shape[axis : axis + 1], "an axis that is padded by its elements")
            modes: dict[str, Any] = {"reflect": "reflect", "edge": "edge", "wrap": "wrap"}
            x = ops.take(x, literal(np.pad(np.arange(size), margin, modes[mode])), axis)
    return x


def _cropped(x: Var, margins: list[tuple[int, int]]) -> Var:
    starts = [max(0, -before) for before, _ in margins]
    sizes = [n + min(0, a) + min(0, b) for n, (a, b) in zip(x.shape, margins, strict=True)]
    return ops.slice(x, starts, sizes)


def padded(x: Var, margins: list[tuple[int, int]], value: Value | float) -> Var:
    """Pad by a number, which may be infinite, or by the one element of an array."""
    number = value.item() if isinstance(value, np.ndarray) else value
    wide = ops.pad(x, margins)
    if isinstance(number, (int, float)) and number == 0:
        return wide
    inside = ops.pad(Constant(NdArrayType(x.shape, Dtype.int32), 1)(), margins) > 0
    if isinstance(number, (int, float)):
        return ops.select(inside, wide, full(wide, number))
    return ops.select(inside, wide, ops.broadcast(ops.reshape(number), wide.shape))


@onnx("Slice", since=13, static="starts ends axes steps")
def slices(x: Var, starts: Array, ends: Array, axes: Array | None = None, steps: Array | None = None) -> Var:
    """Return a block, or every n-th element along axes."""
    begins, stops = numbers_in(starts), numbers_in(ends)
    chosen = normal(x, range(len(begins)) if axes is None else numbers_in(axes))
    every = (1,) * len(begins) if steps is None else fixed(numbers_in(steps), "a step")
    for axis, start, stop, step in zip(chosen, begins, stops, every, strict=True):
        x = _sliced(x, axis, start, stop, step)
    return x


def normal(x: Var, axes: Iterable[int]) -> list[int]:
    """Return axes counted from the front, in their order."""
    return [normalised(axis, x.type.rank)[0] for axis in axes]


def _sliced(x: Var, axis: int, start: Size, stop: Size, step: int) -> Var:
    size = x.shape[axis]
    if isinstance(size, int):
        if isinstance(stop, Dim) or isinstance(start, Dim):
            fixed((start, stop), "the end of a slice of an axis with a fixed size")
        places = np.arange(size)[slice(start, None if stop < 0 and step < 0 and stop < -size else stop, step)]
        if step == 1:
            return _block(x, axis, int(places[0]) if len(places) else 0, len(places))
        return ops.flip(x, axis) if step == -1 and len(places) == size else ops.take(x, literal(places), axis)
    if step == -1 and start == -1 and isinstance(stop, int) and stop <= -END:
        return ops.flip(x, axis)
    require(step == 1, "a symbolic axis must be sliced in steps of 1", f"the step is {step}", "fix the axis")
    return _part(x, axis, *(_from_front(place, size) for place in (start, stop)))


def _from_front(place: Size, size: Size) -> Size:
    """Return an end of a slice counted from the front."""
    if isinstance(place, Dim):
        return place
    return size if place >= END else 0 if place <= -END else place + size if place < 0 else place


def _part(x: Var, axis: int, begin: Size, end: Size) -> Var:
    """Return a part of a symbolic axis, which must have the elements when the program runs."""
    sizes = (begin, end - begin, x.shape[axis] - end)
    parts = ops.split(x, [n for n in sizes if n != 0], axis)
    return parts[begin != 0]


def _block(x: Var, axis: int, start: int, size: Size) -> Var:
    starts = [start if k == axis else 0 for k in range(x.type.rank)]
    return ops.slice(x, starts, [size if k == axis else n for k, n in enumerate(x.shape)])
