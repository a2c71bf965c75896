"""Convolution and pooling, in any number of spatial axes: definitions over windows."""

from __future__ import annotations

from typing import Any

import numpy as np

from catgrad.errors import OptionError, ShapeError
from catgrad.op import Examples, Op, Types, floating
from catgrad.ops.contract import Contract
from catgrad.ops.extrema import max
from catgrad.ops.reduce import mean
from catgrad.ops.shape import Axes, reshape
from catgrad.ops.slices import pad
from catgrad.ops.window import Window, positions, window
from catgrad.types import Array, NdArrayType


class Conv(Op):
    """Cross-correlation: y[n, o, p] = Σ x[n, c, p · stride + k · dilation] · w[o, c, k].

    p and k range over positions and offsets in as many axes as `strides` has; x is padded with
    zeros on both sides; in `groups`, each part of the outputs sees its part of the inputs.

    Type:     (T[N, C, …], T[O, C / groups, …]) -> T[N, O, …] for floating T
    Raises:   ShapeError, OptionError
    Gradient: of the body: dx folds the windows of dy · w, dw contracts dy with the windows of x
    """

    strides: Axes
    padding: Axes
    dilations: Axes
    groups: int = 1

    def type(self, x: NdArrayType, w: NdArrayType) -> Types:
        spatial = len(self.strides)
        fits = x.rank == w.rank == spatial + 2 == len(self.padding) + 2 == len(self.dilations) + 2
        if not fits or x.dtype is not w.dtype:
            raise ShapeError(
                f"x and w must have {spatial + 2} axes, and one dtype, for {spatial} strides and paddings",
                f"they are {x} and {w}",
                "give x as [N, C, …] and w as [O, C / groups, …]",
            )
        channels, outputs = x.shape[1], w.shape[0]
        whole = isinstance(channels, int) and isinstance(outputs, int) and self.groups > 0
        if not whole or outputs % self.groups or channels != w.shape[1] * self.groups:  # type: ignore[operator]
            raise ShapeError(
                f"the channels of x must be {self.groups} times those of w, and the outputs a multiple of it",
                f"they are {x} and {w}",
                "choose other channels or groups",
            )
        places = zip(x.shape[2:], w.shape[2:], self.strides, self.padding, self.dilations, strict=True)
        sizes = [positions(n + 2 * p, int(k), s, d) for n, k, s, p, d in places]  # type: ignore[arg-type]
        return floating(x).with_shape((x.shape[0], outputs, *sizes))

    def ref(self, x: Array, w: Array) -> Any:
        spatial, groups = len(self.strides), self.groups
        padded = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in self.padding)])
        axes = tuple(range(2, 2 + spatial))
        windows = Window(padded.shape, axes, w.shape[2:], self.strides, self.dilations).ref(padded)
        n, c, *places = windows.shape[: 2 + spatial]
        grouped = windows.reshape(n, groups, c // groups, -1, int(np.prod(w.shape[2:])))
        kernels = w.reshape(groups, w.shape[0] // groups, w.shape[1], -1)
        return np.einsum("ngcpk,gock->ngop", grouped, kernels, optimize=True).reshape(n, w.shape[0], *places)

    def body(self, x: Any, w: Any) -> Any:
        spatial, groups = len(self.strides), self.groups
        axes, sizes = tuple(range(2, 2 + spatial)), tuple(w.shape[2:])
        padded = pad(x, [(0, 0), (0, 0), *((p, p) for p in self.padding)])
        windows = window(padded, axes, sizes, self.strides, self.dilations)
        places = windows.shape[2 : 2 + spatial]
        # Labels: batch, group, channel, output, then positions and offsets within a window.
        n, g, c, o, *rest = range(4 + 2 * spatial)
        p, k = rest[:spatial], rest[spatial:]
        if groups == 1:
            return Contract((n, c, *p, *k), (o, c, *k), (n, o, *p))(windows, w)
        x_grouped = reshape(windows, x.shape[0], groups, x.shape[1] // groups, *places, *sizes)
        w_grouped = reshape(w, groups, w.shape[0] // groups, w.shape[1], *sizes)
        out = Contract((n, g, c, *p, *k), (g, o, c, *k), (n, g, o, *p))(x_grouped, w_grouped)
        return reshape(out, x.shape[0], w.shape[0], *places)

    @classmethod
    def examples(cls) -> Examples:
        cases: list[tuple[Conv, Axes, Axes]] = [
            (Conv((1,), (0,), (1,)), (2, 3, 5), (4, 3, 2)),
            (Conv((2, 1), (1, 0), (1, 2)), (2, 3, 5, 6), (4, 3, 3, 2)),
            (Conv((1, 1), (1, 1), (1, 1), groups=2), (2, 4, 4, 3), (6, 2, 3, 3)),
        ]
        return [(op, (NdArrayType(x), NdArrayType(w))) for op, x, w in cases]


def conv(
    x: Any,
    w: Any,
    stride: int | Axes = 1,
    padding: int | Axes = 0,
    dilation: int | Axes = 1,
    groups: int = 1,
) -> Any:
    """y[n, o, p] = Σ x[n, c, p · stride + k · dilation] · w[o, c, k], in as many axes as x has beyond two."""
    spatial = x.type.rank - 2
    return Conv(
        for_each_axis(stride, spatial),
        for_each_axis(padding, spatial),
        for_each_axis(dilation, spatial),
        groups,
    )(x, w)


def max_pool(x: Any, size: int | Axes, stride: int | Axes | None = None) -> Any:
    """The greatest element of each window of x : [N, C, …]; ties share the gradient."""
    return max(_windows(x, size, stride), -1)


def avg_pool(x: Any, size: int | Axes, stride: int | Axes | None = None) -> Any:
    """The mean of each window of x : [N, C, …]."""
    return mean(_windows(x, size, stride), -1)


def for_each_axis(value: int | Axes, count: int) -> Axes:
    """One value for all spatial axes, or one for each. Raises: OptionError."""
    values = (value,) * count if isinstance(value, int) else tuple(value)
    if len(values) != count:
        raise OptionError(
            f"there must be one value, or one for each of {count} spatial axes",
            f"there are {values}",
            "count them",
        )
    return values


def _windows(x: Any, size: int | Axes, stride: int | Axes | None) -> Any:
    spatial = x.type.rank - 2
    sizes = for_each_axis(size, spatial)
    strides = sizes if stride is None else for_each_axis(stride, spatial)
    windows = window(x, tuple(range(2, 2 + spatial)), sizes, strides, (1,) * spatial)
    return reshape(windows, *windows.shape[: 2 + spatial], -1)
