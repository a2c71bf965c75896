"""Legalisation: rewrite operations that Scratch lacks, whose only numbers are float64."""

from __future__ import annotations

from collections.abc import Sequence

from catgrad.loops.ir.nest import Item, Rewriter, rewritten
from catgrad.loops.ir.scalar import Compute, Number, Scalar
from catgrad.ops.arithmetic import Divide, Maximum, Minimum
from catgrad.ops.cast import Cast
from catgrad.ops.transcendental import Erf
from catgrad.terms.structural import Constant
from catgrad.types import Dtype, NdArrayType

from .erf import erf

LIMITS = {
    Dtype.int32: (-(2.0**31), 2.0**31 - 1),
    Dtype.int64: (-(2.0**63), 2.0**63),
    Dtype.uint32: (0.0, 2.0**32 - 1),
    Dtype.int8: (-128.0, 127.0),
    Dtype.uint8: (0.0, 255.0),
}
"""The least and the greatest integer of a dtype; in float64, 2⁶³ is the nearest to that of int64."""


def legalise(items: Sequence[Item]) -> list[Item]:
    """Rewrite error functions, casts of floating numbers, and quotients of two constants."""
    return rewritten(items, _Legal())


class _Legal(Rewriter):
    def _changed(self, old: Scalar) -> Scalar:
        new = super()._changed(old)
        if not isinstance(new, Compute):
            return new
        if isinstance(new.op, Erf):
            return erf(new.operands[0])
        if isinstance(new.op, Cast) and new.op.before.is_floating:
            if new.dtype.is_floating:
                return new.operands[0]
            return _saturated(new) if new.dtype in LIMITS else new
        return _quotient(new) if isinstance(new.op, Divide) and new.dtype.is_floating else new


def _saturated(cast: Compute) -> Scalar:
    """Clamp the operand of a cast to the limits of its dtype; NaN becomes 0 by the comparisons of Scratch."""
    (x,), (least, greatest) = cast.operands, LIMITS[cast.dtype]
    above = Compute(Maximum(), Dtype.float64, (x, _float64(least)))
    return Compute(cast.op, cast.dtype, (Compute(Minimum(), Dtype.float64, (above, _float64(greatest))),))


def _quotient(division: Compute) -> Scalar:
    x, y = division.operands
    if isinstance(x, Number) and isinstance(y, Number) and y.constant.value:
        return _float64(x.constant.value / y.constant.value)
    return division


def _float64(value: float) -> Number:
    return Number(Constant(NdArrayType((), Dtype.float64), value))
