"""Whole division by a number other than 0 needs no care, and is spelled with the operators."""

from __future__ import annotations

from dataclasses import dataclass

from catgrad.ops.whole import FloorDivide, Remainder
from catgrad.programs.passes.rewrite import Rewriter, Values
from catgrad.programs.program import Apply, Function
from catgrad.terms.op import Op


class QuotientByNumber(Op, register=False):
    """What `//` gives for a divisor that is a number other than 0."""

    elementwise = True
    result = FloorDivide.result


class RemainderByNumber(Op, register=False):
    """What `%` gives for a divisor that is a number other than 0."""

    elementwise = True


@dataclass(frozen=True)
class DivisionByNumbers:
    """Every whole division whose divisor is known not to be 0, written with an operator."""

    name: str = "division-by-numbers"

    def apply(self, function: Function) -> Function:
        """With QuotientByNumber and RemainderByNumber where the divisor is constant."""
        return Rewriter(function).sweep(_spell)


def _spell(rewriter: Rewriter, apply: Apply) -> Values | None:
    op, inputs, outputs = apply
    if not isinstance(op, (FloorDivide, Remainder)) or not rewriter.constant(inputs[1]):
        return None
    spelled = QuotientByNumber() if isinstance(op, FloorDivide) else RemainderByNumber()
    return (rewriter.apply_as(rewriter.types[outputs[0]], spelled, *inputs),)
