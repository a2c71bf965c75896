"""Pooling in any number of spatial axes: definitions over windows."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from catgrad.errors import OptionError, ShapeError
from catgrad.ops.compare import select
from catgrad.ops.convolution import for_each_axis
from catgrad.ops.extrema import argmax, iota, max
from catgrad.ops.reduce import broadcast, mean, sum
from catgrad.ops.shape import Axes, Shape, reshape
from catgrad.ops.slices import concat, pad, slice
from catgrad.ops.window import Fold, Window, positions, window
from catgrad.terms.op import Examples, Op, Types, floating
from catgrad.terms.structural import Constant, zeros_like
from catgrad.terms.var import Var
from catgrad.types import Array, NdArrayType

__all__ = ["avg_pool", "global_avg_pool", "max_pool"]


class Pool(Op, register=False):
    """T[N, C, …] -> T[N, C, …] for floating T: one number for each window of the padded array."""

    sizes: Axes
    strides: Axes
    padding: Axes
    dilations: Axes

    def __post_init__(self) -> None:
        fields = self.sizes, self.strides, self.padding, self.dilations
        one_each = len({len(field) for field in fields}) == 1
        positive = min((*self.sizes, *self.strides, *self.dilations), default=1) > 0
        halves = all(0 <= 2 * p <= k for p, k in zip(self.padding, self.sizes, strict=False))
        if not (one_each and positive and halves):
            raise OptionError(
                "windows must have a size, a stride and a dilation of at least 1,"
                " and padding of at most half a window, for each spatial axis",
                f"they are {self}",
                "choose others",
            )

    def type(self, x: NdArrayType) -> Types:
        if x.rank != len(self.sizes) + 2:
            raise ShapeError(
                f"the array must be [N, C, …] with {len(self.sizes)} spatial axes",
                f"it is {x}",
                "give a size for each",
            )
        each = zip(self.padded(x), self.sizes, self.strides, self.dilations, strict=True)
        return floating(x).with_shape((*x.shape[:2], *(positions(n, k, s, d) for n, k, s, d in each)))

    def padded(self, x: NdArrayType | Var | Array) -> Shape:
        """Return the sizes of the spatial axes with the padding."""
        return tuple(n + 2 * p for n, p in zip(x.shape[2:], self.padding, strict=True))

    @property
    def margins(self) -> list[tuple[int, int]]:
        """The padding before and after each axis."""
        return [(0, 0), (0, 0), *((p, p) for p in self.padding)]

    def windows(self, padded: Var) -> Var:
        """Return the windows of the padded array, with the offsets within one as the last axis."""
        first = padded.type.rank - len(self.sizes)
        axes = tuple(range(first, padded.type.rank))
        windows = window(padded, axes, self.sizes, self.strides, self.dilations)
        return reshape(windows, *windows.shape[: padded.type.rank], int(np.prod(self.sizes)))

    def windows_ref(self, padded: Array) -> Array:
        """Return the same on arrays."""
        axes = tuple(range(2, padded.ndim))
        windows = Window(padded.shape, axes, self.sizes, self.strides, self.dilations).ref(padded)
        flat: Array = windows.reshape(*windows.shape[: padded.ndim], int(np.prod(self.sizes)))
        return flat


class MaxPool(Pool):
    """The greatest element of each window: y[n, c, p] = max x[n, c, p · stride + k · dilation] over k.

    Padding is with -∞, so it is never the greatest.

    Type:     T[N, C, …] -> T[N, C, …] for floating T
    Raises:   ShapeError; OptionError if the padding is more than half a window
    Gradient: dy to the first place in row-major order that is greatest, as in torch.nn.functional;
              to none for a window of -∞ that begins in the padding
    """

    result = "greatest"

    def ref(self, x: Array) -> Any:
        return self.windows_ref(np.pad(x, self.margins, constant_values=-inf)).max(axis=-1)

    def body(self, x: Var) -> Var:
        return max(self.windows(self.fenced(x)))

    def rev(self, x: Var, dy: Var) -> Var:
        windows = self.windows(self.fenced(x))
        last = windows.type.rank - 1
        places = broadcast(argmax(windows), windows.shape, (last,))
        first = places == broadcast(iota(windows.shape[last]), windows.shape)
        shares = select(first, broadcast(dy, windows.shape, (last,)), zeros_like(windows))
        whole = (*x.shape[:2], *self.padded(x))
        fold = Fold(whole, tuple(range(2, last)), self.sizes, self.strides, self.dilations)
        return slice(fold(reshape(shares, *fold.windowed)), (0, 0, *self.padding), x.shape)

    def fenced(self, x: Var) -> Var:
        """x with -∞ on both sides of each spatial axis."""
        for axis, width in enumerate(self.padding, 2):
            if width:
                fence = Constant(x.type.with_shape((*x.shape[:axis], width, *x.shape[axis + 1 :])), -inf)()
                x = concat([fence, x, fence], axis)
        return x

    @classmethod
    def examples(cls) -> Examples:
        return [
            (cls((2,), (2,), (0,), (1,)), (NdArrayType((2, 3, 5)),)),
            (cls((3, 2), (1, 2), (1, 0), (1, 1)), (NdArrayType((2, 1, 4, 5)),)),
            (cls((2, 3), (2, 1), (0, 1), (3, 2)), (NdArrayType((1, 2, 5, 6)),)),
            (cls((2,), (1,), (1,), (1,)), (NdArrayType((0, 3, 4)),)),
        ]


class AvgPool(Pool):
    """The mean of each window: y[n, c, p] = Σ x[n, c, p · stride + k · dilation] / count over k.

    Padding is with zeros; `counts_padding` includes them in the count.

    Type:     T[N, C, …] -> T[N, C, …] for floating T
    Raises:   ShapeError; OptionError if the padding is more than half a window
    Gradient: dx adds up dy / count where windows overlap
    """

    counts_padding: bool = True
    result = "average"

    def ref(self, x: Array) -> Any:
        totals = self.windows_ref(np.pad(x, self.margins)).sum(axis=-1)
        if self.counts_padding:
            return totals / x.dtype.type(np.prod(self.sizes))
        return totals / self.windows_ref(np.pad(np.ones_like(x), self.margins)).sum(axis=-1)

    def body(self, x: Var) -> Var:
        windows = self.windows(pad(x, self.margins))
        if self.counts_padding or not any(self.padding):
            return mean(windows, -1)
        ones = pad(Constant(x.type.with_shape(x.shape[2:]), 1)(), self.margins[2:])
        totals = sum(windows, -1)
        return totals / broadcast(sum(self.windows(ones), -1), totals.shape)

    @classmethod
    def examples(cls) -> Examples:
        return [
            (cls((2,), (2,), (0,), (1,)), (NdArrayType((2, 3, 5)),)),
            (cls((3, 2), (1, 2), (1, 1), (1, 1)), (NdArrayType((2, 1, 4, 5)),)),
            (cls((3, 2), (1, 2), (1, 0), (1, 1), False), (NdArrayType((2, 1, 4, 5)),)),
        ]


def max_pool(
    x: Var,
    size: int | Axes,
    stride: int | Axes | None = None,
    padding: int | Axes = 0,
    dilation: int | Axes = 1,
) -> Var:
    """Max pooling of x : [N, C, …]; the stride is the window unless given."""
    sizes = for_each_axis(size, x.type.rank - 2)
    return MaxPool(sizes, *_placed(sizes, stride, padding, dilation))(x)


def avg_pool(
    x: Var,
    size: int | Axes,
    stride: int | Axes | None = None,
    padding: int | Axes = 0,
    count_include_pad: bool = True,
) -> Var:
    """Average pooling of x : [N, C, …]; the stride is the window unless given."""
    sizes = for_each_axis(size, x.type.rank - 2)
    return AvgPool(sizes, *_placed(sizes, stride, padding, 1), count_include_pad)(x)


def global_avg_pool(x: Var) -> Var:
    """Return the mean of x : [N, C, …] over all spatial axes: [N, C]."""
    return mean(x, range(2, x.type.rank))


def _placed(
    sizes: Axes, stride: int | Axes | None, padding: int | Axes, dilation: int | Axes
) -> tuple[Axes, Axes, Axes]:
    """Strides, padding and dilations for each axis."""
    spatial = len(sizes)
    strides = sizes if stride is None else for_each_axis(stride, spatial)
    return strides, for_each_axis(padding, spatial), for_each_axis(dilation, spatial)
