"""Convolution and pooling."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from catgrad import ops
from catgrad.frontends.onnx.operators.operands import along, fixed
from catgrad.frontends.onnx.operators.reductions import reduced
from catgrad.frontends.onnx.operators.slices import padded
from catgrad.frontends.onnx.registry import onnx, require
from catgrad.ops.conv import Conv
from catgrad.ops.power import root
from catgrad.ops.window import Fold
from catgrad.terms.var import Var
from catgrad.types import Array, Dtype

Margins = list[tuple[int, int]]
Numbers = Sequence[int] | None


class Windows:
    """The windows of a convolution or pooling along the spatial axes of x: sizes, strides, margins."""

    def __init__(
        self,
        x: Var,
        kernel_shape: Sequence[Any],
        strides: Numbers = None,
        pads: Numbers = None,
        dilations: Numbers = None,
        auto_pad: str = "NOTSET",
    ) -> None:
        count = len(kernel_shape)
        self.sizes = tuple(kernel_shape)
        self.strides = tuple(strides or (1,) * count)
        self.dilations = tuple(dilations or (1,) * count)
        given = tuple(pads or (0,) * (2 * count))
        self.margins: Margins = [*zip(given[:count], given[count:], strict=True)]
        if auto_pad == "VALID":
            self.margins = [(0, 0)] * count
        elif auto_pad.startswith("SAME"):
            spans = zip(x.shape[2:], self.spans, self.strides, strict=True)
            self.margins = [self._same(n, span, s, auto_pad) for n, span, s in spans]

    @property
    def spans(self) -> tuple[int, ...]:
        """The distance from the first to the last element of a window, both included."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.sizes, self.dilations, strict=True))

    @property
    def are_even(self) -> bool:
        """Return whether margins are equal before and after each axis."""
        return all(before == after for before, after in self.margins)

    @property
    def padding(self) -> tuple[int, ...]:
        """The margins before each axis."""
        return tuple(before for before, _ in self.margins)

    @property
    def are_plain(self) -> bool:
        """Return whether margins are even, and at most half a window, as definitions of pooling need."""
        return self.are_even and all(2 * p <= k for p, k in zip(self.padding, self.sizes, strict=True))

    def _same(self, size: Any, span: int, stride: int, auto_pad: str) -> tuple[int, int]:
        (n,) = fixed((size,), "an axis that is padded to the same size")
        total = max(0, (-(-n // stride) - 1) * stride + span - n)
        less, more = total // 2, total - total // 2
        return (less, more) if auto_pad == "SAME_UPPER" else (more, less)

    def ceiled(self, x: Var) -> Margins:
        """Return margins that include the last, partial window, which begins within the padded array."""
        result = []
        for n, span, stride, (before, after) in zip(
            fixed(x.shape[2:], "an axis of which the last window may be partial"),
            self.spans,
            self.strides,
            self.margins,
            strict=True,
        ):
            steps = -(-(n + before + after - span) // stride)
            if steps * stride >= n + before:
                steps -= 1
            result.append((before, max(after, steps * stride + span - n - before)))
        return result


def _wide(x: Var, margins: Margins, value: float = 0) -> Var:
    return padded(x, [(0, 0), (0, 0), *margins], value) if any(map(any, margins)) else x


@onnx("Conv", since=(11, 22))
def conv(
    x: Var, w: Var, bias: Var | None = None, *, kernel_shape: Numbers = None, group: int = 1, **geometry: Any
) -> Var:
    """Convolution of [N, C, …] with [O, C / group, …], of floats, or of integers by its definition."""
    windows = Windows(x, w.shape[2:], **geometry)
    even = windows.are_even
    x = x if even else _wide(x, windows.margins)
    padding = windows.padding if even else (0,) * len(windows.sizes)
    op = Conv(windows.strides, padding, windows.dilations, group)
    y = op(x, w) if x.dtype.is_floating else op.body(x, w)
    return y if bias is None else y + along(bias, y.shape, 1)


@onnx("ConvTranspose", since=(11, 22))
def conv_transpose(
    x: Var,
    w: Var,
    bias: Var | None = None,
    *,
    kernel_shape: Numbers = None,
    group: int = 1,
    auto_pad: str = "NOTSET",
    output_padding: Numbers = None,
    output_shape: Numbers = None,
    **geometry: Any,
) -> Var:
    """Transpose of the convolution: the whole result, then cut."""
    windows = Windows(x, w.shape[2:], **geometry)
    sizes = fixed(x.shape[2:], "an axis of a transposed convolution")
    extra = tuple(output_padding or (0,) * len(sizes))
    whole = [(n - 1) * s + k for n, s, k in zip(sizes, windows.strides, windows.spans, strict=True)]
    if auto_pad.startswith("SAME") and output_shape is None:
        output_shape = [n * s for n, s in zip(sizes, windows.strides, strict=True)]
    if output_shape is None:
        cut = windows.margins
        output_shape = [n + e - sum(m) for n, e, m in zip(whole, extra, cut, strict=True)]
    else:
        totals = [n + e - m for n, e, m in zip(whole, extra, output_shape, strict=True)]
        halves = [(total // 2, total - total // 2) for total in totals]
        cut = halves if auto_pad == "SAME_UPPER" else [(b, a) for a, b in halves]
    y = ops.conv_transpose(x, w, windows.strides, 0, 0, group, windows.dilations)
    beyond = [max(0, a + m - n) for (a, _), m, n in zip(cut, output_shape, whole, strict=True)]
    y = _wide(y, [(max(0, -a), b) for (a, _), b in zip(cut, beyond, strict=True)])
    y = ops.slice(y, [0, 0, *(max(0, a) for a, _ in cut)], [*y.shape[:2], *output_shape])
    return y if bias is None else y + along(bias, y.shape, 1)


@onnx("MaxPool", since=(12, 22))
def max_pool(x: Var, *, ceil_mode: int = 0, storage_order: int = 0, **geometry: Any) -> Var:
    """Greatest element of each window."""
    if not x.dtype.is_numeric:  # of 8 bits, each of which is a number of float32
        wide = max_pool(
            ops.cast(x, Dtype.float32), ceil_mode=ceil_mode, storage_order=storage_order, **geometry
        )
        return ops.cast(wide, x.dtype)
    windows = Windows(x, **geometry)
    if windows.are_plain and not ceil_mode:
        return ops.max_pool(x, windows.sizes, windows.strides, windows.padding, windows.dilations)
    least = -float("inf") if x.dtype.is_floating else int(x.dtype.limits.min)
    x = _wide(x, windows.ceiled(x) if ceil_mode else windows.margins, least)
    return ops.max_pool(x, windows.sizes, windows.strides, 0, windows.dilations)


def _sums(x: Var, windows: Windows) -> Var:
    """Return the sum of each window."""
    axes = tuple(range(2, x.type.rank))
    found = ops.window(x, axes, windows.sizes, windows.strides, windows.dilations)
    return ops.sum(found, range(x.type.rank, found.type.rank))


@onnx("AveragePool", since=(11, 19, 22))
def average_pool(x: Var, *, ceil_mode: int = 0, count_include_pad: int = 0, **geometry: Any) -> Var:
    """Mean of each window, without margins unless they count."""
    windows = Windows(x, **geometry)
    if windows.are_plain and not ceil_mode and set(windows.dilations) == {1}:
        return ops.avg_pool(x, windows.sizes, windows.strides, windows.padding, bool(count_include_pad))
    margins = windows.ceiled(x) if ceil_mode else windows.margins
    sums = _sums(_wide(x, margins), windows)
    counts = [
        _counts(n, margin, own if count_include_pad else (0, 0), *each)
        for n, margin, own, *each in zip(
            fixed(x.shape[2:], "a pooled axis"),
            margins,
            windows.margins,
            windows.sizes,
            windows.strides,
            windows.dilations,
            strict=True,
        )
    ]
    for axis, count in enumerate(counts, 2):
        sums = sums / along(ops.array(count, x.dtype), sums.shape, axis)
    return sums


def _counts(n: int, margin: tuple[int, int], own: tuple[int, int], k: int, s: int, d: int) -> Array:
    """Return the number of elements of each window along one axis that count."""
    ones = np.pad(np.ones(n + sum(own)), (margin[0] - own[0], margin[1] - own[1]))
    starts = range(0, len(ones) - (k - 1) * d, s)
    return np.array([ones[a : a + (k - 1) * d + 1 : d].sum() for a in starts])


@onnx("LpPool", since=(11, 18, 22))
def norm_pool(x: Var, *, ceil_mode: int = 0, p: int = 2, **geometry: Any) -> Var:
    """p-norm of each window."""
    windows = Windows(x, **geometry)
    x = _wide(x, windows.ceiled(x) if ceil_mode else windows.margins)
    return root(_sums(ops.absolute(x) ** float(p), windows), p)


def _global(name: str, function: Any, since: tuple[int, ...]) -> None:
    onnx(name, since=since)(lambda x: reduced(function, x, tuple(range(2, x.type.rank)), 1))


_global("GlobalAveragePool", ops.mean, (1, 22))
_global("GlobalMaxPool", ops.max, (1, 22))


@onnx("GlobalLpPool", since=(2, 22))
def global_norm_pool(x: Var, *, p: int = 2) -> Var:
    """p-norm of each channel."""
    axes = tuple(range(2, x.type.rank))
    return root(reduced(ops.sum, ops.absolute(x) ** float(p), axes, 1), p)


@onnx("Col2Im", since=18, static="image block")
def columns_to_image(x: Var, image: Array, block: Array, **geometry: Any) -> Var:
    """Sum of windows in their places."""
    sizes, k = [int(n) for n in image], [int(n) for n in block]
    n, rows, _ = x.shape
    windows = Windows(x, k, **geometry)
    whole = [m + sum(margin) for m, margin in zip(sizes, windows.margins, strict=True)]
    places = [(m - span) // s + 1 for m, span, s in zip(whole, windows.spans, windows.strides, strict=True)]
    require(prod(places) == x.shape[2], "there must be a column for each window", f"there are {x.type}")
    channels, count = rows // prod(k), len(k)
    y = ops.reshape(x, n, channels, *k, *places)
    y = ops.permute(y, 0, 1, *range(2 + count, 2 + 2 * count), *range(2, 2 + count))
    axes = tuple(range(2, 2 + count))
    y = Fold((n, channels, *whole), axes, windows.sizes, windows.strides, windows.dilations)(y)
    return ops.slice(y, [0, 0, *windows.padding], [n, channels, *sizes])
