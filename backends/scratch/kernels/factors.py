"""Expressions as a machine with one kind of number has them: products with what changes least first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from catgrad.loops.ir.index import Variable
from catgrad.loops.ir.nest import Accumulate, Item, Loop, Rewriter, Store
from catgrad.loops.ir.scalar import Buffer, Compute, IndexValue, Masked, Number, Scalar
from catgrad.ops.arithmetic import Divide, Maximum, Minimum, Multiply
from catgrad.ops.cast import Cast
from catgrad.ops.transcendental import Erf
from catgrad.terms.structural import Constant
from catgrad.types import Dtype, NdArrayType

from .erf import erf

LIMITS = {
    Dtype.int32: (-(2.0**31), 2.0**31 - 1),
    Dtype.int64: (-(2.0**63), 2.0**63),
    Dtype.uint32: (0.0, 2.0**32 - 1),
}
"""The least and the greatest whole number of a dtype; in float64, 2⁶³ is the nearest to that of int64."""

Depths = Mapping[Variable | Buffer, int]
"""For loop variables and numbers, how many loops are around what changes them."""


def ordered(items: Sequence[Item], depths: Depths | None = None, depth: int = 0) -> list[Item]:
    """The items with the factors of each product of more than two in order."""
    known = {**(depths or {})}
    result: list[Item] = []
    for item in items:
        if isinstance(item, Loop):
            result.append(
                Loop(item.variable, ordered(item.body, {**known, item.variable: depth + 1}, depth + 1))
            )
        elif isinstance(item, Store):
            if item.buffer.is_register:
                known[item.buffer] = depth
            result.append(Store(item.buffer, item.indices, _Ordered(known).scalar(item.scalar)))
        elif isinstance(item, Accumulate):
            known[item.buffer] = depth
            result.append(Accumulate(item.buffer, item.indices, item.op, _Ordered(known).scalar(item.scalar)))
        else:
            result.append(item)
    return result


class _Ordered(Rewriter):
    def __init__(self, depths: Depths) -> None:
        super().__init__()
        self.depths = depths

    def _changed(self, old: Scalar) -> Scalar:
        if isinstance(old, IndexValue) and not old.index.terms:
            return _number(old.index.constant, old.dtype)
        if isinstance(old, Masked):
            return self._decided(old)
        if not isinstance(old, Compute):
            return super()._changed(old)
        if isinstance(old.op, Erf):
            return erf(self.scalar(old.operands[0]))
        if isinstance(old.op, Cast) and old.dtype.is_floating and old.op.before.is_floating:
            return self.scalar(old.operands[0])  # Scratch has but one kind of number
        if isinstance(old.op, Cast) and old.op.before.is_floating and old.dtype in LIMITS:
            return Compute(old.op, old.dtype, (_clamped(self.scalar(old.operands[0]), *LIMITS[old.dtype]),))
        if isinstance(old.op, Divide) and all(isinstance(self.scalar(o), Number) for o in old.operands):
            x, y = (self.scalar(o).constant.value for o in old.operands)  # type: ignore[attr-defined]
            return _number(x / y, old.dtype) if y and old.dtype.is_floating else old
        if not (isinstance(old.op, Multiply) and old.dtype.is_floating):
            return super()._changed(old)
        factors = sorted(map(self.scalar, _factors(old)), key=self._depth)
        product = factors[0]
        for factor in factors[1:]:
            product = Compute(Multiply(), old.dtype, (product, factor))
        return product

    def _decided(self, old: Masked) -> Scalar:
        """Without the conditions that a loop written out has decided."""
        known = [c for c in old.conditions if not c.index.terms]
        if not all(0 <= int(c.index.constant) < int(c.size) for c in known):
            return self.scalar(old.outside)
        open_ = tuple(c for c in old.conditions if c.index.terms)
        return super()._changed(replace(old, conditions=open_)) if open_ else self.scalar(old.inside)

    def _depth(self, scalar: Scalar) -> int:
        if isinstance(scalar, Number):
            return -1
        own = [self.depths.get(v, 0) for v in scalar.variables]
        numbers = [self.depths.get(a.buffer, 0) for a in scalar.loads() if not a.buffer.order]
        return max([*own, *numbers, 0])


def _clamped(x: Scalar, least: float, greatest: float) -> Scalar:
    """The nearest number within bounds; 0 for what is no number, as comparisons of Scratch have it."""
    above = Compute(Maximum(), Dtype.float64, (x, _number(least, Dtype.float64)))
    return Compute(Minimum(), Dtype.float64, (above, _number(greatest, Dtype.float64)))


def _number(value: Any, dtype: Dtype) -> Number:
    wide = Dtype.float64 if dtype.is_floating else dtype
    return Number(Constant(NdArrayType((), wide), value))


def _factors(scalar: Scalar) -> list[Scalar]:
    if isinstance(scalar, Compute) and isinstance(scalar.op, Multiply):
        return [f for operand in scalar.operands for f in _factors(operand)]
    return [scalar]
