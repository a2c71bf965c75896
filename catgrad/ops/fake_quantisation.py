"""Fake quantisation: float arrays on a grid of levels, with the gradient of the identity (straight-through).

Source: Jacob et al. 2018 (arXiv:1712.05877), section 3; Bengio et al. 2013, Estimating or propagating
gradients through stochastic neurons for conditional computation (arXiv:1308.3432)
"""

from __future__ import annotations

import numpy as np

from catgrad.errors import DtypeError, OptionError
from catgrad.ops.compare import select
from catgrad.ops.quantised import LEAST, MOST, along, clamped, nearest_levels
from catgrad.ops.shape import normalised
from catgrad.terms.op import INPUTS, Examples, Op, Types, floating
from catgrad.terms.structural import Constant, zeros_like
from catgrad.terms.var import Var
from catgrad.types import Array, Dtype, NdArrayType

__all__ = ["fake_quantise"]


class FakeQuantise(Op):
    """Fake quantisation: y = s · (clamp(round(x · (1 / s)) + z, low, high) - z), rounding ties to even.

    Type:     (T[S], R[] or R[n], i32[] or i32[n]) -> T[S] for floating T, R, with n elements along `axis`
    Domain:   s > 0 and low ≤ z ≤ high
    Raises:   DtypeError unless x is floating and z whole; OptionError for arrays without an axis, or unless
              low ≤ high
    Gradient: dx = dy where the rounded number is within the bounds, else 0, by definition; none of s and z
    """

    axis: int | None = None
    low: int = LEAST
    high: int = MOST
    saves = INPUTS
    result = "rounded"

    def __post_init__(self) -> None:
        if self.low > self.high:
            found = f"they are {self.low}, {self.high}"
            raise OptionError("there must be bounds with low ≤ high", found, "exchange them")

    def type(self, x: NdArrayType, scale: NdArrayType, zero: NdArrayType) -> Types:
        floating(x), floating(scale)
        if not zero.dtype.is_integer:
            raise DtypeError("a zero point must be a whole number", f"it is {zero}", "cast it to int32")
        for each in (scale, zero):
            if each.rank and (each.rank > 1 or self.axis is None):
                raise OptionError(
                    "scales and zero points must be numbers, or have one axis, which `axis` names",
                    f"one is {each}, and axis is {self.axis}",
                    "pass the axis of the channels",
                )
        return x

    def ref(self, x: Array, scale: Array, zero: Array) -> Array:
        inverse, s, z = (self.spread(v, x.ndim).astype(x.dtype) for v in (1 / scale, scale, zero))
        return np.asarray((np.clip(np.rint(x * inverse) + z, self.low, self.high) - z) * s)

    def body(self, x: Var, scale: Var, zero: Var) -> Var:
        within = clamped(nearest_levels(x, scale, zero, self.axis), self.low, self.high)
        return (within - along(x, zero, self.axis, x.dtype)) * along(x, scale, self.axis, x.dtype)

    def rev(self, x: Var, scale: Var, zero: Var, dy: Var) -> tuple[Var, Var, Var]:
        levels = nearest_levels(x, scale, zero, self.axis)
        is_within = levels == clamped(levels, self.low, self.high)
        return select(is_within, dy, zeros_like(dy)), zeros_like(scale), zeros_like(zero)

    def spread(self, array: Array, rank: int) -> Array:
        """Return scales or zero points with the axes of x, of size 1 but for that of the channels."""
        return array.reshape([-1 if k == self.axis else 1 for k in range(rank)])

    @classmethod
    def examples(cls) -> Examples:
        return []  # its reverse is not the derivative of `ref`


def fake_quantise(
    x: Var,
    scale: Var | float,
    zero: Var | float = 0,
    axis: int | None = None,
    low: int = LEAST,
    high: int = MOST,
) -> Var:
    """Round as quantisation does, y = s · (clamp(round(x · (1 / s)) + z, low, high) - z): `FakeQuantise`.

    A scale or zero point is a number, or an array with one element for each index of `axis`.
    """
    arrays = (
        value if hasattr(value, "type") else Constant(NdArrayType((), dtype), value)()
        for value, dtype in ((scale, x.dtype), (zero, Dtype.int32))
    )
    place = None if axis is None else normalised(axis, x.type.rank)[0]
    return FakeQuantise(place, low, high)(x, *arrays)
