"""Common subexpression elimination: equal operations on equal values are computed once."""

from __future__ import annotations

from catgrad.programs.passes.rewrite import Rewriter, Values
from catgrad.programs.program import Apply, Function, Nested
from catgrad.terms.op import Op


def share(function: Function) -> Function:
    """Replace each repeated operation by its first occurrence."""
    first: dict[tuple[Op, Values], Values] = {}

    def known(rewriter: Rewriter, apply: Apply) -> Values | None:
        op, inputs, outputs = apply
        if isinstance(op, Nested):  # lowered loops are not compared
            return None
        before = first.setdefault((op, tuple(sorted(inputs)) if op.commutative else inputs), outputs)
        return None if before is outputs else before

    return Rewriter(function).sweep(known)
