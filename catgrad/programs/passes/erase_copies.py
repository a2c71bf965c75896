"""Copy propagation: copies, discards and labels are structure, so their readers use the source."""

from __future__ import annotations

from catgrad.programs.passes.layers import with_whole_names
from catgrad.programs.passes.rewrite import Rewriter, Values
from catgrad.programs.program import Apply, Function
from catgrad.terms.structural import Copy, Discard, Label, StopGradient


def erase_copies(function: Function) -> Function:
    """Remove Copy, Discard, Label and StopGradient; labels become the names of values."""
    return with_whole_names(Rewriter(function).sweep(_erase))


def _erase(rewriter: Rewriter, apply: Apply) -> Values | None:
    op, inputs, _ = apply
    if isinstance(op, Copy):
        return inputs * 2
    if isinstance(op, Discard):
        return ()
    if isinstance(op, Label):
        rewriter.name(inputs[0], op.name)
        return inputs
    return inputs if isinstance(op, StopGradient) else None
