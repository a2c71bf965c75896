"""Resampling of spatial axes at any places: linear and cubic interpolation along one axis after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any

from catgrad.errors import ShapeError
from catgrad.ops.arithmetic import floor, maximum, minimum
from catgrad.ops.cast import cast
from catgrad.ops.extrema import iota
from catgrad.ops.reduce import broadcast
from catgrad.ops.shape import normalised
from catgrad.ops.take import take
from catgrad.terms.structural import Constant, zeros_like
from catgrad.terms.var import Var
from catgrad.types import Dtype

Taps = Callable[[Var], Sequence[tuple[int, Var]]]
"""For the fractions of places, the weights of elements by their distance from the place rounded down."""


def linear(fraction: Var) -> list[tuple[int, Var]]:
    """Return the weights of linear interpolation: 1 - t and t."""
    return [(0, 1 - fraction), (1, fraction)]


def cubic(fraction: Var) -> list[tuple[int, Var]]:
    """Return the weights of cubic convolution with a = -3/4, of the four next elements.

    Source: Keys 1981, Cubic convolution interpolation for digital image processing, equation 4
    """
    return [(k, _keys(k, fraction)) for k in (-1, 0, 1, 2)]


def _keys(place: int, t: Var, a: float = -0.75) -> Var:
    """Return the weight of the element at a place for the fraction t."""
    if place in (0, 1):
        x = t if place == 0 else 1 - t
        return ((a + 2) * x - (a + 3)) * x * x + 1
    x = t + 1 if place == -1 else 2 - t
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a


def places(count: int, size: int, dtype: Dtype, align_corners: bool, scale: float | None = None) -> Var:
    """Return the places in an axis of this size from which `count` elements are sampled.

    They are those of pixel centres, or with `align_corners` from the first to the last; `scale` is the
    factor that PyTorch was given, in place of the ratio of sizes.
    """
    numbers = iota(count, dtype)
    if align_corners:
        return numbers * ((size - 1) / (count - 1) if count > 1 else 0.0)
    step = 1 / scale if scale else size / count
    return (numbers + 0.5) * step - 0.5


def resample(x: Var, axis: int, at: Var, taps: Taps) -> Any:
    """Interpolate along an axis at these places; beyond its ends are copies of its last elements.

    Type:     (T[…, n, …], T[m]) -> T[…, m, …] for floating T
    Raises:   ShapeError if the axis is symbolic
    Gradient: by the formula, for x and for the places
    """
    (place,) = normalised(axis, x.type.rank)
    size = x.shape[place]
    if not isinstance(size, int):
        raise ShapeError(
            "an axis that is resampled must have a number of elements", f"it is {size}", "fix it"
        )
    start = floor(at)
    others = [k for k in range(x.type.rank) if k != place]
    total = None
    for offset, weight in taps(at - start):
        index = cast(within(start + offset, 0, size - 1), Dtype.int64)
        part = take(x, index, place)
        term = part * broadcast(weight, part.shape, others)
        total = term if total is None else total + term
    return total


def within(x: Var, low: float, high: float) -> Var:
    """Return the nearest number of an interval."""
    if high < inf:
        x = minimum(x, Constant(x.type, high)())
    return maximum(x, zeros_like(x) if low == 0 else Constant(x.type, low)())
