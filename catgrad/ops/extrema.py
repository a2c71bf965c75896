"""Extrema along an axis, their positions (argmax, argmin), and iota."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from catgrad.dims import Size, numbers, product
from catgrad.ops.bits import bitwise_not
from catgrad.ops.compare import select
from catgrad.ops.reduce import broadcast, sum
from catgrad.ops.shape import Shape, normalised, permute, require_shape, reshape, without
from catgrad.terms.op import NOTHING, Examples, Op, Saves, Types, numeric
from catgrad.terms.structural import zeros_like
from catgrad.terms.var import Var
from catgrad.types import Array, Dtype, NdArrayType

__all__ = ["argmax", "argmin", "iota", "max", "min"]


class ReducedAxis(Op, register=False):
    """T[shape] -> T[shape without axis] for numeric T, of at least one element."""

    shape: Shape
    axis: int
    reduces = True

    def type(self, x: NdArrayType) -> Types:
        require_shape(numeric(x), self.shape)
        return x.with_shape(without(self.shape, (self.axis,)))

    def minimum_sizes(self, x: NdArrayType) -> tuple[tuple[Size, int], ...]:
        return ((self.shape[self.axis], 1),)


class PlaceOfExtremum(ReducedAxis, register=False):
    """T[shape] -> i64[shape without axis] for numeric T: a position along the axis. It has gradient 0."""

    result = "place"

    def type(self, x: NdArrayType) -> Types:
        super().type(x)
        return NdArrayType(without(self.shape, (self.axis,)), Dtype.int64)

    def rev(self, x: Var, dy: Var) -> Var:
        return zeros_like(x)

    @classmethod
    def examples(cls) -> Examples:
        return [(cls(op.shape, op.axis), types) for op, types in Max.examples() if isinstance(op, Max)]


class ArgMax(PlaceOfExtremum):
    """Position of the greatest element along an axis: the first of several; a NaN counts as greatest.

    Type:     T[shape] -> i64[shape without axis]
    Raises:   ShapeError if the axis is empty
    Gradient: 0
    """

    def ref(self, x: Array) -> Any:
        return np.argmax(x, axis=self.axis)


class ArgMin(PlaceOfExtremum):
    """Position of the least element along an axis: the first of several; a NaN counts as least.

    Type:     T[shape] -> i64[shape without axis]
    Raises:   ShapeError if the axis is empty
    Gradient: 0
    """

    def ref(self, x: Array) -> Any:
        return np.argmin(x, axis=self.axis)


class Extremum(ReducedAxis, register=False):
    """T[shape] -> T[shape without axis] for numeric T: one of the elements along the axis.

    The cotangent goes in equal shares to all elements that equal it; for integer T to the first of them.
    """

    saves = Saves(inputs=..., outputs=...)
    place: ClassVar[type[PlaceOfExtremum]]
    """Return the position of the element."""

    def rev(self, x: Var, y: Var, dy: Var) -> Var:
        if not x.dtype.is_floating:
            place = broadcast(self.place(self.shape, self.axis)(x), self.shape, (self.axis,))
            others = tuple(axis for axis in range(len(self.shape)) if axis != self.axis)
            first = place == broadcast(iota(self.shape[self.axis]), self.shape, others)
            return select(first, broadcast(dy, self.shape, (self.axis,)), zeros_like(x))
        chosen = x == broadcast(y, self.shape, (self.axis,))
        ones = select(chosen, zeros_like(x) + 1, zeros_like(x))
        share = broadcast(dy / sum(ones, self.axis), self.shape, (self.axis,))
        return select(chosen, share, zeros_like(x))

    @classmethod
    def examples(cls) -> Examples:
        shapes: list[tuple[Shape, int]] = [((2, 3), 0), ((2, 3), 1), ((2, 3, 4), 1), ((0, 3), 1)]
        floating = [(cls(shape, axis), (NdArrayType(shape),)) for shape, axis in shapes]
        whole = [NdArrayType((2, 3), dtype) for dtype in Dtype if dtype.is_integer and dtype.is_numeric]
        return [*floating, *((cls((2, 3), 1), (type,)) for type in whole)]


class Max(Extremum):
    """Maximum along an axis, which is removed: y = maxᵢ xᵢ; NaN if one is.

    Type:     T[shape] -> T[shape without axis] for numeric T
    Raises:   ShapeError if the axis is empty
    Gradient: dy in equal shares to all that are greatest (as torch.amax); for integer T to the first
    """

    result = "greatest"
    place = ArgMax

    def ref(self, x: Array) -> Any:
        return np.max(x, axis=self.axis)


class Min(Extremum):
    """Minimum along an axis, which is removed: y = minᵢ xᵢ; NaN if one is.

    Type:     T[shape] -> T[shape without axis] for numeric T
    Raises:   ShapeError if the axis is empty
    Gradient: dy in equal shares to all that are least (as torch.amin); for integer T to the first
    """

    result = "least"
    rounds_once = True
    place = ArgMin

    def ref(self, x: Array) -> Any:
        return np.min(x, axis=self.axis)

    def body(self, x: Var) -> Var:
        greatest = Max(self.shape, self.axis)
        if x.dtype.is_floating:
            return -greatest(-x)
        # The negative of the least integer is itself, so the order is reversed bit by bit.
        return bitwise_not(greatest(bitwise_not(x)))


class Iota(Op):
    """The numbers 0, 1, …, size - 1.

    Type:     () -> T[size]
    Gradient: none, for there is no input
    """

    size: Size
    dtype: Dtype = Dtype.int64
    saves = NOTHING

    def type(self) -> Types:
        return numeric(NdArrayType((self.size,), self.dtype))

    def ref(self) -> Array:
        return np.arange(numbers((self.size,))[0], dtype=self.dtype.numpy)

    def rev(self, dy: Var) -> tuple[()]:
        return ()

    @classmethod
    def examples(cls) -> Examples:
        return [(Iota(4), ()), (Iota(0, Dtype.float32), ())]


def max(x: Var, axes: int | Sequence[int] | None = -1) -> Var:
    """Return the greatest element along an axis, by default the last, or over several, or over all (None)."""
    return _extremum(Max, x, axes)


def min(x: Var, axes: int | Sequence[int] | None = -1) -> Var:
    """Return the least element along an axis, by default the last, or over several, or over all (None)."""
    return _extremum(Min, x, axes)


def _extremum(kind: type[Extremum], x: Var, axes: int | Sequence[int] | None) -> Var:
    """Reduce several axes as one, so that equal elements share the cotangent across axes, too."""
    chosen = normalised(axes, x.type.rank)
    if len(chosen) != 1:
        rest = [axis for axis in range(x.type.rank) if axis not in chosen]
        x = permute(x, *rest, *chosen)
        kept, gone = x.shape[: len(rest)], x.shape[len(rest) :]
        x, chosen = reshape(x, *kept, product(gone)), (len(rest),)
    return kind(x.shape, *chosen)(x)


def argmax(x: Var, axis: int = -1) -> Var:
    """Return the position of the greatest element along an axis."""
    return ArgMax(x.shape, *normalised(axis, x.type.rank))(x)


def argmin(x: Var, axis: int = -1) -> Var:
    """Return the position of the least element along an axis."""
    return ArgMin(x.shape, *normalised(axis, x.type.rank))(x)


def iota(size: Size, dtype: Dtype = Dtype.int64) -> Var:
    """Return the numbers 0, 1, …, size - 1."""
    return Iota(size, dtype)()
