"""Barriers keep passes from moving what is behind them; once the order stands, they are gone."""

from __future__ import annotations

from catgrad.programs.passes.rewrite import Rewriter, Values
from catgrad.programs.program import Apply, Function
from catgrad.terms.structural import Barrier

name = "erase-barriers"


def apply(function: Function) -> Function:
    """Without Barrier, after all that may share or reorder."""
    return Rewriter(function).sweep(_erase)


def _erase(rewriter: Rewriter, apply: Apply) -> Values | None:
    return apply.inputs if isinstance(apply.op, Barrier) else None
