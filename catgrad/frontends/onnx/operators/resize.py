"""Resizing: along each axis, sums of elements with weights that depend on the place alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from catgrad import ops
from catgrad.frontends.onnx.operators.operands import along, axis_of, fixed, literal, numbers_in
from catgrad.frontends.onnx.registry import onnx, require
from catgrad.ops.grid import grid_sample as sampled
from catgrad.terms.var import Var
from catgrad.types import Array


class Sampling(NamedTuple):
    """The attributes that determine places and weights."""

    mode: str
    coordinates: str
    nearest: str
    cubic: float
    exclude_outside: bool
    antialias: bool
    extrapolation: float


@onnx("Resize", since=(13, 18, 19), static="roi scales sizes")
def resize(
    x: Var, roi: Array | None = None, scales: Array | None = None, sizes: Array | None = None, *,
    mode: str = "nearest", coordinate_transformation_mode: str = "half_pixel",
    nearest_mode: str = "round_prefer_floor", cubic_coeff_a: float = -0.75, exclude_outside: int = 0,
    extrapolation_value: float = 0.0, antialias: int = 0, axes: Sequence[int] | None = None,
    keep_aspect_ratio_policy: str = "stretch",
) -> Var:  # fmt: skip
    """Resize axes by factors, or to sizes."""
    chosen = range(x.type.rank) if axes is None else [axis_of(x, a) for a in axes]
    factors = None if scales is None or not scales.size else [float(s) for s in scales]
    given = None if sizes is None or not len(sizes) else list(numbers_in(sizes))
    require((factors is None) != (given is None), "there must be factors or sizes", "there are both, or none")
    how = Sampling(
        mode,
        coordinate_transformation_mode,
        nearest_mode,
        cubic_coeff_a,
        bool(exclude_outside),
        bool(antialias),
        extrapolation_value,
    )
    ends = None if roi is None or not roi.size else np.reshape(roi, (2, -1))
    plan = _counts(x, chosen, factors, given, keep_aspect_ratio_policy)
    for k, (axis, (count, factor)) in enumerate(zip(chosen, plan, strict=True)):
        size = x.shape[axis]
        if count == size and factor == 1 and how.coordinates != "tf_crop_and_resize":
            continue
        (length,) = fixed((size,), "an axis that is resized")
        region = None if ends is None else (float(ends[0, k]), float(ends[1, k]))
        x = _resampled(x, axis, length, *_weights(length, count, factor, region, how), how)
    return x


def _counts(x: Var, axes: Sequence[int], factors: Any, sizes: Any, policy: str) -> list[tuple[Any, float]]:
    """Return the new size of each axis, and the factor of places."""
    old = [x.shape[axis] for axis in axes]
    if factors is not None:
        return [
            (n, s) if s == 1 else (int(np.floor(fixed((n,), "an axis that is resized")[0] * s)), s)
            for n, s in zip(old, factors, strict=True)
        ]
    if policy == "stretch":
        return [(m, 1 if m == n else m / n) for m, n in zip(sizes, old, strict=True)]
    pick = min if policy == "not_larger" else max
    factor = pick(m / n for m, n in zip(sizes, old, strict=True))
    return [(int(np.floor(factor * n + 0.5)), factor) for n in old]


def _places(size: int, count: int, factor: float, region: Any, how: Sampling) -> Any:
    """Return the places in an axis from which elements are sampled."""
    i, length = np.arange(count, dtype=np.float64), factor * size
    match how.coordinates:
        case "half_pixel":
            return (i + 0.5) / factor - 0.5
        case "half_pixel_symmetric":
            adjusted = count / length
            return size / 2 * (1 - adjusted) + (i + 0.5) / factor - 0.5
        case "pytorch_half_pixel":
            return (i + 0.5) / factor - 0.5 if length != 1 else np.full(count, -0.5)
        case "align_corners":
            return i * ((size - 1) / (length - 1)) if length != 1 else np.zeros(count)
        case "asymmetric":
            return i / factor
        case "tf_crop_and_resize":
            start, end = region
            if length != 1:
                return start * (size - 1) + i * (end - start) * (size - 1) / (length - 1)
            return np.full(count, 0.5 * (start + end) * (size - 1))
    require(False, "places must be computed in a known way", f"they are {how.coordinates!r}")
    return i


def _weights(size: int, count: int, factor: float, region: Any, how: Sampling) -> tuple[Array, Array, Array]:
    """Return indices and weights, with a row for each element, and whether its place is inside."""
    places = _places(size, count, factor, region, how)
    inside = (places >= 0) & (places <= size - 1)
    if how.mode == "nearest":
        return _nearest(places, how.nearest)[:, None], np.ones((count, 1)), inside
    shrink = min(factor, 1.0) if how.antialias else 1.0
    reach = int(np.ceil((1 if how.mode == "linear" else 2) / shrink))
    index = np.floor(places).astype(np.int64)[:, None] + np.arange(1 - reach, reach + 1)
    distance = np.abs(places[:, None] - index) * shrink
    weights = np.maximum(0, 1 - distance) if how.mode == "linear" else _cubic(distance, how.cubic)
    if how.exclude_outside:
        weights = weights * ((index >= 0) & (index < size))
    if how.exclude_outside or how.antialias:
        weights = weights / weights.sum(1, keepdims=True)
    return index, weights, inside


def _nearest(places: Array, mode: str) -> Array:
    rounded: dict[str, Callable[[Array], Any]] = {
        "round_prefer_floor": lambda p: np.ceil(p - 0.5),
        "round_prefer_ceil": lambda p: np.floor(p + 0.5),
        "floor": np.floor,
        "ceil": np.ceil,
    }
    index: Array = rounded[mode](places).astype(np.int64)
    return index


def _cubic(d: Array, a: float) -> Array:
    """Cubic convolution. Source: Keys 1981, equation 4"""
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


def _resampled(
    x: Var, axis: int, size: int, index: Array, weights: Array, inside: Array, how: Sampling
) -> Any:
    total: Any = None
    for k in range(index.shape[1]):
        if not weights[:, k].any():
            continue
        part = ops.take(x, literal(np.clip(index[:, k], 0, size - 1)), axis)
        if not (weights[:, k] == 1).all():
            part = part * along(ops.array(weights[:, k], x.dtype), part.shape, axis)
        total = part if total is None else total + part
    if how.coordinates != "tf_crop_and_resize" or inside.all():
        return total
    beyond = along(ops.array(np.where(inside, 0, how.extrapolation), x.dtype), total.shape, axis)
    return ops.select(along(literal(inside), total.shape, axis), total, beyond)


GRID_MODES = {"bilinear": 0, "linear": 0, "nearest": 1, "bicubic": 2, "cubic": 2}
GRID_PADDING = {"zeros": 0, "border": 1, "reflection": 2}


@onnx("GridSample", since=(16, 20, 22))
def grid_sample(
    x: Var, grid: Var, *, mode: str = "linear", padding_mode: str = "zeros", align_corners: int = 0
) -> Any:
    """Sample images at points."""
    return sampled(x, grid, GRID_MODES[mode], GRID_PADDING[padding_mode], bool(align_corners))
