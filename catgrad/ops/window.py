"""Sliding windows: Window (im2col), and its reverse Fold (col2im)."""

from __future__ import annotations

from typing import Any

import numpy as np

from catgrad.dims import Size, numbers
from catgrad.errors import OptionError, ShapeError
from catgrad.ops.shape import Axes, Shape, require_shape
from catgrad.terms.op import NOTHING, Examples, Op, Types, numeric
from catgrad.terms.var import Var
from catgrad.types import Array, NdArrayType

__all__ = ["window"]


class Sliding(Op, register=False):
    """Base class of Window and Fold: windows of `sizes` along `axes` of an array of this shape."""

    shape: Shape
    axes: Axes
    sizes: Axes
    strides: Axes
    dilations: Axes
    saves = NOTHING

    def __post_init__(self) -> None:
        lengths = {len(field) for field in (self.axes, self.sizes, self.strides, self.dilations)}
        positive = min((*self.sizes, *self.strides, *self.dilations), default=1) > 0
        if len(lengths) > 1 or not positive or not all(0 <= axis < len(self.shape) for axis in self.axes):
            raise OptionError(
                "windows must have a size, a stride and a dilation of at least 1 for each of their axes",
                f"they are {self}",
                "count axes from 0",
            )

    @property
    def windowed(self) -> Shape:
        """The shape of the windows: positions in place of the axes, then the axes within a window."""
        shape = list(self.shape)
        for axis, size, stride, dilation in zip(
            self.axes, self.sizes, self.strides, self.dilations, strict=True
        ):
            shape[axis] = positions(self.shape[axis], size, stride, dilation)
        return (*shape, *self.sizes)


class Window(Sliding):
    """Windows of an array: y[…, o, …, k] = x[…, o · stride + k · dilation, …] along each of the axes.

    Type:     T[shape] -> T[windowed], with the axes within a window last
    Raises:   ShapeError if a window is longer than its axis, or the axis symbolic
    Gradient: dx adds up dy where windows overlap (the reverse is Fold)
    """

    def type(self, x: NdArrayType) -> Types:
        require_shape(x, self.shape)
        return x.with_shape(self.windowed)

    def ref(self, x: Array) -> Any:
        spans = [(size - 1) * d + 1 for size, d in zip(self.sizes, self.dilations, strict=True)]
        axes: Any = self.axes  # NumPy's annotations know of one axis only
        every = np.lib.stride_tricks.sliding_window_view(x, spans, axes)
        index: list[Any] = [np.s_[:]] * every.ndim
        for k, axis in enumerate(self.axes):
            index[axis] = np.s_[:: self.strides[k]]
            index[x.ndim + k] = np.s_[:: self.dilations[k]]
        return every[tuple(index)]

    def rev(self, dy: Var) -> Var:
        return Fold(self.shape, self.axes, self.sizes, self.strides, self.dilations)(dy)

    @classmethod
    def examples(cls) -> Examples:
        ops = [
            Window((5,), (0,), (3,), (1,), (1,)),
            Window((2, 7), (1,), (2,), (2,), (3,)),
            Window((2, 5, 6), (1, 2), (2, 3), (2, 1), (1, 2)),
        ]
        return [(op, (NdArrayType(op.shape),)) for op in ops]


class Fold(Sliding):
    """Sums of windows: y[…, i, …] = Σ x[…, o, …, k] over all o · stride + k · dilation = i.

    Type:     T[windowed] -> T[shape]
    Raises:   as Window
    Gradient: dx is the windows of dy (the reverse is Window)
    """

    reduces = True

    @property
    def is_tiled(self) -> bool:
        """Return whether the windows tile the array, so that each sum has one term."""
        lengths = (self.windowed[axis] * size for axis, size in zip(self.axes, self.sizes, strict=True))
        whole = tuple(self.shape[axis] for axis in self.axes)
        return self.strides == self.sizes and set(self.dilations) <= {1} and tuple(lengths) == whole

    @property
    def is_disjoint(self) -> bool:
        """Return whether no windows overlap, so that each sum has one term at most."""
        no_longer = all(size <= stride for size, stride in zip(self.sizes, self.strides, strict=True))
        return no_longer and set(self.dilations) <= {1}

    def type(self, x: NdArrayType) -> Types:
        require_shape(numeric(x), self.windowed)
        return x.with_shape(self.shape)

    def ref(self, x: Array) -> Array:
        y = np.zeros(numbers(self.shape), x.dtype)
        for offset in np.ndindex(*self.sizes):
            index: list[Any] = [np.s_[:]] * y.ndim
            for axis, k, stride, dilation in zip(
                self.axes, offset, self.strides, self.dilations, strict=True
            ):
                index[axis] = np.s_[k * dilation : k * dilation + (x.shape[axis] - 1) * stride + 1 : stride]
            at: Any = (..., *offset)
            y[tuple(index)] += x[at]
        return y

    def rev(self, dy: Var) -> Var:
        return Window(self.shape, self.axes, self.sizes, self.strides, self.dilations)(dy)

    @classmethod
    def examples(cls) -> Examples:
        ops = [op for op, _ in Window.examples() if isinstance(op, Window)]
        return [
            (Fold(op.shape, op.axes, op.sizes, op.strides, op.dilations), (NdArrayType(op.windowed),))
            for op in ops
        ]


def positions(length: Size, size: int, stride: int, dilation: int) -> int:
    """Count the windows: ⌊(length - (size - 1) · dilation - 1) / stride⌋ + 1. Raises: ShapeError."""
    span = (size - 1) * dilation + 1
    if not isinstance(length, int) or length < span:
        raise ShapeError(
            f"an axis must be a number of at least {span} for windows of {size} with dilation {dilation}",
            f"it is {length}",
            "pad the array, or choose smaller windows",
        )
    return (length - span) // stride + 1


def window(x: Var, axes: Axes, sizes: Axes, strides: Axes, dilations: Axes) -> Var:
    """Return the windows of x along these axes, with the axes within a window last."""
    return Window(x.shape, axes, sizes, strides, dilations)(x)
