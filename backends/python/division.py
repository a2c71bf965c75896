"""Integer division by a constant other than 0, printed as an operator without a check."""

from __future__ import annotations

from catgrad.ops.whole import FloorDivide, Remainder
from catgrad.programs.passes.rewrite import Rewriter, Values, by_rule
from catgrad.programs.program import Apply
from catgrad.terms.op import Op


class QuotientByNumber(Op, register=False):
    """Quotient `//` by a constant other than 0."""

    elementwise = True
    result = FloorDivide.result


class RemainderByNumber(Op, register=False):
    """Remainder `%` by a constant other than 0."""

    elementwise = True


@by_rule
def division_by_numbers(rewriter: Rewriter, apply: Apply) -> Values | None:
    """Print integer divisions by constants other than 0 as operators."""
    op, inputs, outputs = apply
    if not isinstance(op, (FloorDivide, Remainder)) or not rewriter.constant(inputs[1]):
        return None
    spelled = QuotientByNumber() if isinstance(op, FloorDivide) else RemainderByNumber()
    return (rewriter.apply_as(rewriter.types[outputs[0]], spelled, *inputs),)
