"""The greatest and the least element along an axis, and where they are; counting along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from catgrad.dims import Size, numbers
from catgrad.errors import ShapeError
from catgrad.op import NOTHING, Examples, Op, Saves, Types, floating, numeric
from catgrad.ops.compare import select
from catgrad.ops.reduce import broadcast, sum
from catgrad.ops.shape import Shape, normalised, require_shape, without
from catgrad.structural import zeros_like
from catgrad.types import Array, Dtype, NdArrayType


class Extremum(Op, register=False):
    """T[shape] -> T[shape without axis] for floating T: one of the elements along the axis.

    The cotangent goes in equal shares to all elements that equal it.
    """

    shape: Shape
    axis: int
    saves = Saves(inputs=..., outputs=...)

    def type(self, x: NdArrayType) -> Types:
        require_shape(floating(x), self.shape)
        _require_elements(x, self.axis)
        return x.with_shape(without(self.shape, (self.axis,)))

    def rev(self, x: Any, y: Any, dy: Any) -> Any:
        chosen = x == broadcast(y, self.shape, (self.axis,))
        ones = select(chosen, zeros_like(x) + 1, zeros_like(x))
        share = broadcast(dy / sum(ones, self.axis), self.shape, (self.axis,))
        return select(chosen, share, zeros_like(x))

    @classmethod
    def examples(cls) -> Examples:
        shapes: list[tuple[Shape, int]] = [((2, 3), 0), ((2, 3), 1), ((2, 3, 4), 1), ((0, 3), 1)]
        return [(cls(shape, axis), (NdArrayType(shape),)) for shape, axis in shapes]


class Max(Extremum):
    """The greatest element along an axis, which is gone: y = maxᵢ xᵢ, for floating T; NaN if one is.

    Type:     T[shape] -> T[shape without axis]
    Raises:   ShapeError if the axis is empty
    Gradient: dy in equal shares to all that are greatest (as torch.amax)
    """

    result = "greatest"

    def ref(self, x: Array) -> Any:
        return np.max(x, axis=self.axis)


class Min(Extremum):
    """The least element along an axis, which is gone: y = minᵢ xᵢ, for floating T; NaN if one is.

    Type:     T[shape] -> T[shape without axis]
    Raises:   ShapeError if the axis is empty
    Gradient: dy in equal shares to all that are least (as torch.amin)
    """

    result = "least"
    rounds_once = True

    def ref(self, x: Array) -> Any:
        return np.min(x, axis=self.axis)

    def body(self, x: Any) -> Any:
        return -Max(self.shape, self.axis)(-x)


class PlaceOfExtremum(Op, register=False):
    """T[shape] -> i64[shape without axis] for numeric T: a place along the axis. It has gradient 0."""

    shape: Shape
    axis: int
    result = "place"

    def type(self, x: NdArrayType) -> Types:
        require_shape(numeric(x), self.shape)
        _require_elements(x, self.axis)
        return NdArrayType(without(self.shape, (self.axis,)), Dtype.int64)

    def rev(self, x: Any, dy: Any) -> Any:
        return zeros_like(x)

    @classmethod
    def examples(cls) -> Examples:
        return [(cls(op.shape, op.axis), types) for op, types in Max.examples() if isinstance(op, Max)]


class ArgMax(PlaceOfExtremum):
    """Where the greatest element along an axis is: the first place of several; a NaN counts as greatest.

    Type:     T[shape] -> i64[shape without axis]
    Raises:   ShapeError if the axis is empty
    Gradient: 0
    """

    def ref(self, x: Array) -> Any:
        return np.argmax(x, axis=self.axis)


class ArgMin(PlaceOfExtremum):
    """Where the least element along an axis is: the first place of several; a NaN counts as least.

    Type:     T[shape] -> i64[shape without axis]
    Raises:   ShapeError if the axis is empty
    Gradient: 0
    """

    def ref(self, x: Array) -> Any:
        return np.argmin(x, axis=self.axis)


class Iota(Op):
    """The numbers 0, 1, …, size - 1.

    Type:     () -> T[size]
    Gradient: none, for there is no input
    """

    size: Size
    dtype: Dtype = Dtype.int64
    saves = NOTHING

    def type(self) -> Types:
        return NdArrayType((self.size,), self.dtype)

    def ref(self) -> Any:
        return np.arange(numbers((self.size,))[0], dtype=self.dtype.numpy)

    def rev(self, dy: Any) -> Any:
        return ()

    @classmethod
    def examples(cls) -> Examples:
        return [(Iota(4), ()), (Iota(0, Dtype.float32), ())]


def max(x: Any, axis: int = -1) -> Any:
    """The greatest element along an axis, which is gone."""
    return Max(x.shape, *normalised(axis, x.type.rank))(x)


def min(x: Any, axis: int = -1) -> Any:
    """The least element along an axis, which is gone."""
    return Min(x.shape, *normalised(axis, x.type.rank))(x)


def argmax(x: Any, axis: int = -1) -> Any:
    """Where the greatest element along an axis is."""
    return ArgMax(x.shape, *normalised(axis, x.type.rank))(x)


def argmin(x: Any, axis: int = -1) -> Any:
    """Where the least element along an axis is."""
    return ArgMin(x.shape, *normalised(axis, x.type.rank))(x)


def iota(size: Size, dtype: Dtype = Dtype.int64) -> Any:
    """The numbers 0, 1, …, size - 1."""
    return Iota(size, dtype)()


def _require_elements(x: NdArrayType, axis: int) -> None:
    if x.shape[axis] == 0:
        raise ShapeError(
            "an axis must have an element to have a greatest or a least one",
            f"axis {axis} of {x} is empty",
            "choose another",
        )
