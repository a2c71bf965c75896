"""Removal of barriers, after all passes that share or reorder operations."""

from __future__ import annotations

from catgrad.programs.passes.rewrite import Rewriter, Values
from catgrad.programs.program import Apply, Function
from catgrad.terms.structural import Barrier

name = "erase-barriers"


def apply(function: Function) -> Function:
    """Remove every Barrier."""
    return Rewriter(function).sweep(_erase)


def _erase(rewriter: Rewriter, apply: Apply) -> Values | None:
    return apply.inputs if isinstance(apply.op, Barrier) else None
