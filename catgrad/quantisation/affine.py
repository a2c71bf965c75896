"""Affine maps from int8 to numbers, chosen by extrema, and fixed-point multipliers of 32 bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from catgrad.ops.quantised import LEAST, MOST
from catgrad.types import Array

LEVELS = MOST - LEAST + 1
"""The number of levels."""

MAX_SUM_BITS = 52
"""The bits of a sum of products with multipliers."""

MAX_SHIFT_BITS = 44
"""The greatest shift, at which zero points are sums of so many bits."""


class Affine(NamedTuple):
    """The map x = s · (q - z) from int8; the scale is a number of float32."""

    scale: float
    zero: int

    def quantise(self, x: Array) -> Array:
        """Return the nearest levels, ties to even."""
        levels = np.rint(np.nan_to_num(x.astype(np.float64) / self.scale)) + self.zero
        return np.clip(levels, LEAST, MOST).astype(np.int8)

    def dequantise(self, q: Array) -> Array:
        """Return the numbers that levels stand for."""
        return (q.astype(np.float64) - self.zero) * self.scale


def affine_of(low: float, high: float) -> Affine:
    """Return the map whose levels cover an interval and 0, which is a level itself."""
    low, high = min(low, 0.0), max(high, 0.0)
    scale = rounded((high - low) / (MOST - LEAST))
    return Affine(scale, int(np.clip(np.rint(LEAST - low / scale), LEAST, MOST)))


def symmetric(weights: Array, axes: Sequence[int]) -> tuple[Array, Array]:
    """Quantise weights to -127 … 127 with one scale for each index of the axes that are not in `axes`.

    Return the levels, and the scales as float64, with `axes` of size 1. A scale and its inverse are numbers
    of float32, so weights that are less than half of the least such scale are 0.
    """
    greatest = np.max(np.abs(weights), axis=tuple(axes), keepdims=True, initial=0).astype(np.float64)
    scales = np.maximum(np.where(greatest > 0, greatest, 1) / MOST, np.finfo(np.float32).tiny)
    return np.rint(weights / scales).astype(np.int8), scales


def fixed_point(factors: Sequence[Array], greatest: Array) -> tuple[list[Array], int]:
    """Return multipliers m of 31 bits and one shift s such that m / 2ˢ are the factors.

    Sums of products with them, of which `greatest` has bounds after the shift, have at most 52 bits. So they
    are exact where integers of 64 bits are float64, as in JavaScript.
    """
    largest = max(float(np.max(np.abs(factor), initial=0)) for factor in factors)
    bits = max(np.frexp(largest)[1] + MAX_SUM_BITS - 31, np.frexp(float(np.max(greatest)))[1])
    shift = int(np.clip(MAX_SUM_BITS - bits, 1, MAX_SHIFT_BITS))
    # A factor just below a power of two may round up to it.
    return [np.minimum(np.rint(f * 2.0**shift), 2**31 - 1).astype(np.int32) for f in factors], shift


def rounded(number: float) -> float:
    """Round a scale to float32; that of an interval without numbers is 1."""
    scale = float(np.float32(number))
    return scale if 0 < scale < np.inf else 1.0
