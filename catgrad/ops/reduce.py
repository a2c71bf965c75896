"""Reductions over axes, and their dual, broadcasting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from catgrad.dims import Dim, Size, numbers, product
from catgrad.ops.shape import Axes, Shape, normalised, require_shape, squeeze, without
from catgrad.terms.op import NOTHING, Examples, Op, Types, floating, numeric
from catgrad.terms.structural import Constant, NumberOf
from catgrad.terms.var import Var
from catgrad.types import Array, Dtype, NdArrayType

__all__ = ["broadcast", "broadcast_to", "mean", "number_of", "sum"]


class Broadcast(Op):
    """Broadcast: `axes` of the output are new, the others are those of the input.

    Type:     T[shape without axes] -> T[shape]
    Raises:   ShapeError, OptionError
    Gradient: dx is dy summed over the new axes (the dual is Sum)
    """

    shape: Shape
    axes: Axes
    saves = NOTHING
    rearranges = True

    def type(self, x: NdArrayType) -> Types:
        require_shape(x, without(self.shape, self.axes))
        return x.with_shape(self.shape)

    def ref(self, x: Array) -> Array:
        return np.broadcast_to(np.expand_dims(x, self.axes), numbers(self.shape))

    def rev(self, dy: Var) -> Var:
        return Sum(self.shape, self.axes)(dy)

    def is_identity(self, *inputs: NdArrayType) -> bool:
        return not self.axes

    @classmethod
    def examples(cls) -> Examples:
        return [
            (Broadcast((2, 3), (0,)), (NdArrayType((3,)),)),
            (Broadcast((2, 3), (1,)), (NdArrayType((2,)),)),
            (Broadcast((2, 3, 4), (0, 2)), (NdArrayType((3,)),)),
            (Broadcast((2, 3), (0, 1)), (NdArrayType(()),)),
        ]


class Sum(Op):
    """Sum over axes, which are removed: y = Σ x; 16-bit numbers are summed in float32.

    Type:     T[shape] -> T[shape without axes] for numeric T
    Raises:   ShapeError, DtypeError, OptionError
    Gradient: dx is dy broadcast along the axes (the dual is Broadcast)
    """

    shape: Shape
    axes: Axes
    saves = NOTHING
    result = "total"
    reduces = True

    def type(self, x: NdArrayType) -> Types:
        require_shape(numeric(x), self.shape)
        return x.with_shape(without(self.shape, self.axes))

    def ref(self, x: Array) -> Any:
        return np.sum(x, axis=self.axes, dtype=x.dtype)

    def rev(self, dy: Var) -> Var:
        return Broadcast(self.shape, self.axes)(dy)

    def is_identity(self, *inputs: NdArrayType) -> bool:
        return not self.axes

    @classmethod
    def examples(cls) -> Examples:
        chosen: list[tuple[Shape, Axes]] = [
            ((2, 3), (0,)),
            ((2, 3), (1,)),
            ((2, 3, 4), (0, 2)),
            ((2, 3), (0, 1)),
            ((0, 3), (0,)),
        ]
        return [(Sum(shape, axes), (NdArrayType(shape),)) for shape, axes in chosen]


class Mean(Op):
    """Mean over axes, which are removed: y = Σ x / n; n is the number of elements summed.

    Type:     T[shape] -> T[shape without axes] for floating T
    Raises:   ShapeError, OptionError
    Gradient: dx = dy / n
    """

    shape: Shape
    axes: Axes
    saves = NOTHING

    def type(self, x: NdArrayType) -> Types:
        return Sum(self.shape, self.axes).type(floating(x))

    def ref(self, x: Array) -> Any:
        (count,) = numbers((self._count,))
        return np.sum(x, axis=self.axes) / x.dtype.type(count)

    def body(self, x: Var) -> Var:
        return self._divided(Sum(self.shape, self.axes)(x))

    def rev(self, dy: Var) -> Var:
        return Broadcast(self.shape, self.axes)(self._divided(dy))

    @property
    def _count(self) -> Size:
        return product(tuple(self.shape[axis] for axis in self.axes))

    def _divided(self, x: Var) -> Var:
        return x / broadcast(number_of(self._count, x.dtype), x.shape)

    @classmethod
    def examples(cls) -> Examples:
        chosen: list[tuple[Shape, Axes]] = [
            ((2, 3), (0,)),
            ((2, 3, 4), (0, 2)),
            ((2, 3), (0, 1)),
            ((0, 3), (1,)),
        ]
        return [(Mean(shape, axes), (NdArrayType(shape),)) for shape, axes in chosen]


def mean_of(x: Array, axes: Axes) -> Array:
    """Compute the mean of a NumPy array with its axes kept; NaN of none, without NumPy's warning."""
    total = x.sum(axis=axes, keepdims=True)
    mean: Array = total / x.dtype.type(x.size // total.size if total.size else 0)
    return mean


def broadcast(x: Var, shape: Shape, axes: Sequence[int] | None = None) -> Var:
    """Broadcast x along the axes `axes` of `shape`; by default along its leading axes."""
    new = range(len(shape) - x.type.rank) if axes is None else axes
    return Broadcast(x.type.with_shape(shape).shape, normalised(new, len(shape)))(x)


def broadcast_to(x: Var, shape: Shape) -> Var:
    """Broadcast x to a shape as NumPy does: along new leading axes, and along its axes of size 1."""
    offset = len(shape) - x.type.rank
    ones = [axis for axis, size in enumerate(x.shape) if size == 1 and shape[offset + axis] != 1]
    new = [*range(offset), *(offset + axis for axis in ones)]
    return broadcast(squeeze(x, ones), shape, new) if new else x


def sum(x: Var, axes: int | Sequence[int] | None = None) -> Var:
    """Sum: y = Σ x over `axes`, by default over all."""
    return Sum(x.shape, normalised(axes, x.type.rank))(x)


def mean(x: Var, axes: int | Sequence[int] | None = None) -> Var:
    """Mean: y = Σ x / n over `axes`, by default over all; n is the number of elements summed."""
    return Mean(x.shape, normalised(axes, x.type.rank))(x)


def number_of(size: Size, dtype: Dtype = Dtype.float32) -> Var:
    """Return a size as a scalar of the term: a constant if it is known, else read at run time."""
    return NumberOf(size, dtype)() if isinstance(size, Dim) else Constant(NdArrayType((), dtype), size)()
