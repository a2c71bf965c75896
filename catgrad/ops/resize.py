"""Resizing of spatial axes: adaptive pooling and nearest-neighbour upsampling."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from catgrad.errors import OptionError, ShapeError
from catgrad.ops.convolution import for_each_axis
from catgrad.ops.pool import avg_pool, max_pool
from catgrad.ops.reduce import broadcast
from catgrad.ops.shape import Axes, reshape
from catgrad.ops.slices import concat, slice
from catgrad.terms.var import Var

__all__ = ["adaptive_avg_pool", "adaptive_max_pool", "upsample_nearest"]


def adaptive_avg_pool(x: Var, size: int | Axes) -> Var:
    """Adaptive average pooling: the means of `size` bins along each spatial axis of x : [N, C, …].

    Bin i of m along n elements is ⌊i n / m⌋ … ⌈(i + 1) n / m⌉ - 1, as in torch.nn.functional.
    """
    return _adaptive(avg_pool, x, size)


def adaptive_max_pool(x: Var, size: int | Axes) -> Var:
    """Adaptive max pooling, with the bins of adaptive_avg_pool."""
    return _adaptive(max_pool, x, size)


def upsample_nearest(x: Var, factor: int | Axes) -> Var:
    """Nearest-neighbour upsampling: repeat each element of x : [N, C, …] along each spatial axis."""
    factors = for_each_axis(factor, x.type.rank - 2)
    if min(factors, default=1) < 1:
        raise OptionError("the factors must be at least 1", f"they are {factors}", "choose others")
    spread = [size for pair in zip(x.shape[2:], factors, strict=True) for size in pair]
    copies = broadcast(x, (*x.shape[:2], *spread), range(3, 2 + len(spread), 2))
    larger = [n * f for n, f in zip(x.shape[2:], factors, strict=True)]
    return reshape(copies, *x.shape[:2], *larger)


def _adaptive(pool: Callable[..., Var], x: Var, size: int | Axes) -> Var:
    counts = for_each_axis(size, x.type.rank - 2)
    # Last axis first: of equal elements, the first in row-major order is selected.
    for axis in reversed(range(2, x.type.rank)):
        x = _pooled_bins(pool, x, axis, counts[axis - 2])
    return x


def _pooled_bins(pool: Callable[..., Var], x: Var, axis: int, count: int) -> Var:
    length = x.shape[axis]
    if not isinstance(length, int) or length < 1 or count < 1:
        raise ShapeError(
            "adaptive pooling must have a number of elements, and of bins, along each spatial axis",
            f"there are {count} bins for axis {axis} of {x.type}",
            "give sizes of at least 1",
        )
    bins = [(i * length // count, -(-(i + 1) * length // count)) for i in range(count)]
    sizes = {stop - start for start, stop in bins}
    steps = {b - a for (a, _), (b, _) in pairwise(bins)} or {1}
    if len(sizes) == len(steps) == 1 and steps != {0}:
        return pool(x, _along(axis, x, *sizes), _along(axis, x, *steps))
    parts = [_part(x, axis, start, stop) for start, stop in bins]
    return concat([pool(part, _along(axis, x, part.shape[axis])) for part in parts], axis)


def _along(axis: int, x: Var, size: Any) -> Axes:
    """Windows of one element along the other spatial axes."""
    return tuple(size if k == axis else 1 for k in range(2, x.type.rank))


def _part(x: Var, axis: int, start: int, stop: int) -> Var:
    starts = [start if k == axis else 0 for k in range(x.type.rank)]
    return slice(x, starts, (*x.shape[:axis], stop - start, *x.shape[axis + 1 :]))
