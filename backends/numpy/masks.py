"""Selections between numbers and 0 as masks: bits times 1 or 0, which has no branches to predict."""

from __future__ import annotations

from math import copysign

from catgrad.ops.compare import Select
from catgrad.ops.logic import Not
from catgrad.programs.passes.rewrite import Rewriter, Values, by_rule
from catgrad.programs.program import Apply
from catgrad.terms.op import Op


class Masked(Op, register=False):
    """x where a condition holds, 0 elsewhere."""

    elementwise = True
    result = "masked"


@by_rule
def masks(rewriter: Rewriter, apply: Apply) -> Values | None:
    """Print selections between floating numbers and 0 as masks."""
    if not isinstance(apply.op, Select):
        return None
    condition, x, y = apply.inputs
    type = rewriter.types[x]
    if not type.rank or not type.dtype.is_floating:
        return None
    if _is_zero(rewriter, x):
        condition, x, y = rewriter.apply(Not(), condition), y, x
    if not _is_zero(rewriter, y) or rewriter.constant(x) is not None:
        return None
    return (rewriter.apply_as(type, Masked(), x, condition),)


def _is_zero(rewriter: Rewriter, value: int) -> bool:
    number = rewriter.constant(value)
    return number == 0 and copysign(1, number) == 1
