"""Removal of barriers, after all passes that share or reorder operations."""

from __future__ import annotations

from catgrad.programs.passes.rewrite import Rewriter, Values, by_rule
from catgrad.programs.program import Apply
from catgrad.terms.structural import Barrier


@by_rule
def erase_barriers(rewriter: Rewriter, apply: Apply) -> Values | None:
    """Remove every Barrier."""
    return apply.inputs if isinstance(apply.op, Barrier) else None
