"""Resampling of images: linear, cubic and nearest interpolation, sampling on a grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from catgrad import ops
from catgrad.frontends.torch.aten.images import Numbers, each
from catgrad.frontends.torch.registry import aten
from catgrad.ops.resample import Taps, cubic, linear, places, resample, within
from catgrad.terms.var import Var
from catgrad.types import Dtype

Factors = Sequence[float | None]


def _sizes(x: Var, size: Numbers | None, factors: Any, spatial: int) -> tuple[tuple[int, ...], Factors]:
    """Return the sizes of the result, and the factors that were given."""
    if size is None:
        return tuple(int(n * factor) for n, factor in zip(x.shape[2:], factors, strict=True)), factors
    return each(size, spatial), factors or [None] * spatial


def _interpolated(x: Any, sizes: Sequence[int], align_corners: bool, factors: Factors, taps: Taps) -> Any:
    for axis, (count, factor) in enumerate(zip(sizes, factors, strict=True), 2):
        size = x.shape[axis]
        if count == size and (factor in (None, 1.0) or align_corners):
            continue  # each place is that of an element
        at = places(count, size, x.dtype, align_corners, factor)
        x = resample(x, axis, within(at, 0, float("inf")) if taps is linear else at, taps)
    return x


def _register(name: str, spatial: int, taps: Taps) -> None:
    @aten(f"{name}.vec")
    def by_sizes_or_factors(x: Var, size: Numbers | None, align_corners: bool, factors: Any = None) -> Any:
        sizes, scales = _sizes(x, size, factors, spatial)
        return _interpolated(x, sizes, align_corners, scales, taps)

    if spatial == 2:
        return  # PyTorch presents the others as sums of elements

    @aten(f"{name}.default")
    def by_sizes(x: Var, size: Numbers, align_corners: bool, *factors: float | None, **named: Any) -> Any:
        scales = list(factors) or [None] * spatial
        return _interpolated(x, each(size, spatial), align_corners, scales, taps)


for _name, _spatial, _taps in (
    ("upsample_linear1d", 1, linear),
    ("upsample_bilinear2d", 2, linear),
    ("upsample_trilinear3d", 3, linear),
    ("upsample_bicubic2d", 2, cubic),
):
    _register(_name, _spatial, _taps)


def _nearest(x: Var, sizes: Sequence[int], factors: Factors, shift: float) -> Var:
    """Sample the elements at the places (i + shift) · step, rounded down, in float32 as PyTorch."""
    for axis, (count, factor) in enumerate(zip(sizes, factors, strict=True), 2):
        size = x.shape[axis]
        step = np.float32(1 / factor) if factor else np.float32(size) / np.float32(count)
        numbers = ops.iota(count, Dtype.float32)
        index = ops.cast((numbers + shift if shift else numbers) * float(step), Dtype.int64)
        last = ops.number_of(size - 1, Dtype.int64)
        last = ops.broadcast(last, index.shape)
        x = ops.take(x, ops.select(index > last, last, index), axis)
    return x


def _register_nearest(spatial: int) -> None:
    @aten(f"_upsample_nearest_exact{spatial}d.vec")
    def exact_by_sizes_or_factors(x: Var, size: Numbers | None, factors: Any = None) -> Var:
        return _nearest(x, *_sizes(x, size, factors, spatial), 0.5)

    @aten(f"_upsample_nearest_exact{spatial}d.default")
    def exact_by_sizes(x: Var, size: Numbers, *factors: float | None, **named: Any) -> Var:
        return _nearest(x, each(size, spatial), list(factors) or [None] * spatial, 0.5)

    @aten(f"upsample_nearest{spatial}d.default")
    def by_sizes(x: Var, size: Numbers, *factors: float | None, **named: Any) -> Var:
        return _nearest(x, each(size, spatial), list(factors) or [None] * spatial, 0)


for _spatial in (1, 2, 3):
    _register_nearest(_spatial)
