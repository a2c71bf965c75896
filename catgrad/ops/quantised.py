"""Affine quantisation to int8: x ≈ s · (q - z), with sums of products in int32 and rescaling by integers.

A scale s and a zero point z are numbers, or arrays with one element for each index of `axis`, such as an
output channel of a weight. Scales are float32, zero points and multipliers int32.

Source: Jacob et al. 2018, Quantization and training of neural networks for efficient
integer-arithmetic-only inference (arXiv:1712.05877), section 2
"""

from __future__ import annotations

from typing import Any

import numpy as np

from catgrad.errors import DtypeError, OptionError
from catgrad.ops.arithmetic import maximum, minimum, round
from catgrad.ops.bounds import clamp
from catgrad.ops.cast import cast
from catgrad.ops.reduce import broadcast
from catgrad.ops.shape import normalised
from catgrad.terms.op import floating
from catgrad.terms.structural import Constant, stop_gradient
from catgrad.terms.var import Var
from catgrad.types import Dtype, NdArrayType

__all__ = ["dequantise", "quantise", "requantise"]

LEAST, MOST = -128, 127
"""The limits of int8."""


def quantise(x: Var, scale: Var | float, zero: Var | float = 0, axis: int | None = None) -> Var:
    """Quantise to int8: q = clamp(round(x · (1 / s)) + z, -128, 127), rounding ties to even.

    Type:     (f32[S], f32[] or f32[n], i32[] or i32[n]) -> i8[S], for n elements along `axis`
    Domain:   s > 0 and -128 ≤ z ≤ 127; NaN becomes -128
    Raises:   DtypeError unless x is floating; OptionError for arrays without an axis
    Gradient: none, as integers of 8 bits have none
    Source:   Jacob et al. 2018 (arXiv:1712.05877), equation 1
    """
    return cast(clamped(nearest_levels(x, scale, zero, axis), LEAST, MOST), Dtype.int8)


def dequantise(
    q: Var, scale: Var | float, zero: Var | float = 0, axis: int | None = None, dtype: Dtype = Dtype.float32
) -> Var:
    """Return the numbers that integers stand for: x = s · (q - z).

    Type:     (i8[S], f32[] or f32[n], i32[] or i32[n]) -> f32[S], for n elements along `axis`
    Raises:   OptionError for arrays without an axis
    Gradient: none in q; ds = Σ dy · (q - z)
    Source:   Jacob et al. 2018 (arXiv:1712.05877), equation 1
    """
    return (cast(q, dtype) - along(q, zero, axis, dtype)) * along(q, scale, axis, dtype)


def requantise(
    total: Var,
    multiplier: Var | float,
    shift: int,
    zero: int = 0,
    low: int = LEAST,
    high: int = MOST,
    axis: int | None = None,
) -> Var:
    """Rescale sums to int8 by integers alone: q = clamp(⌊(t · m + 2ˢ⁻¹) / 2ˢ⌋ + z, low, high).

    m / 2ˢ is the ratio of the scale of the sums to that of q. Products have 64 bits, and ties are rounded up.

    Type:     (i32[S], i32[] or i32[n]) -> i8[S], for n elements along `axis`; or from i64[S]
    Domain:   |t · m| < 2⁶², or 2⁵² in JavaScript
    Raises:   DtypeError unless the sums are int32 or int64; OptionError unless 1 ≤ s ≤ 62
    Gradient: none, as integers of 8 bits have none
    Source:   Jacob et al. 2018 (arXiv:1712.05877), section 2.2, with one rounding
    """
    if total.dtype not in (Dtype.int32, Dtype.int64):
        raise DtypeError("sums must be int32 or int64", f"they are {total.type}", "cast the factors to int32")
    if not 1 <= shift <= 62:
        raise OptionError("the shift must lie between 1 and 62", f"it is {shift}", "choose other scales")
    scaled = cast(total, Dtype.int64) * along(total, multiplier, axis, Dtype.int64)
    return cast(narrowed(scaled + (1 << (shift - 1)), shift, low - zero, high - zero) + zero, Dtype.int8)


def narrowed(scaled: Var, shift: int, low: int, high: int, bits: int = 64) -> Var:
    """Return clamp(⌊x / 2ˢ⌋, low, high) as int32, for x : i64[S] of so many bits with its sign.

    What has 32 bits after the shift is clamped as such, which processors of 32 bits do in one instruction.
    """
    shifted = scaled >> shift
    if bits - shift <= 32:
        shifted = cast(shifted, Dtype.int32)
    least, most = (Constant(shifted.type, bound)() for bound in (low, high))
    return cast(minimum(maximum(shifted, least), most), Dtype.int32)


def nearest_levels(x: Var, scale: Any, zero: Var | float, axis: int | None) -> Var:
    """Return the numbers of levels, as floats that are not yet clamped."""
    floating(x.type)
    inverse = 1 / scale if hasattr(scale, "type") else _inverse(scale, x.dtype)
    return stop_gradient(round(x * along(x, inverse, axis, x.dtype)) + along(x, zero, axis, x.dtype))


def _inverse(scale: float, dtype: Dtype) -> float:
    """Return 1 / s, rounded to the dtype as the division of two such numbers is."""
    kind = dtype.numpy.type
    return float(np.divide(kind(1), kind(scale)))


def clamped(levels: Var, low: int, high: int) -> Var:
    """Clamp levels, which are floats."""
    return clamp(levels, float(low), float(high))


def along(x: Var, value: Any, axis: int | None, dtype: Dtype) -> Var:
    """Return a number, or one for each index of an axis, in the shape of x."""
    if not hasattr(value, "type"):
        return Constant(NdArrayType(x.shape, dtype), value)()
    value = cast(value, dtype)
    if value.type.rank == 0:
        return broadcast(value, x.shape)
    if axis is None or value.type.rank != 1:
        raise OptionError(
            "scales, zero points and multipliers must be numbers, or have one axis, which `axis` names",
            f"one is {value.type}, and axis is {axis}",
            "pass the axis of the channels",
        )
    (place,) = normalised(axis, x.type.rank)
    return broadcast(value, x.shape, [other for other in range(x.type.rank) if other != place])
