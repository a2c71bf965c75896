"""Widening after moving: numbers of 16 bits are padded, permuted and concatenated in 16 bits, and cast then.

What is moved is half as many bytes, and rounding it again is no operation: round(widen(x)) = x. Where a
permutation moves the last axis, rounding stays, so that products read an array in their order rather than a
view without rows.
"""

from __future__ import annotations

from catgrad.ops.cast import Cast
from catgrad.ops.reduce import Broadcast
from catgrad.ops.shape import Permute, Reshape
from catgrad.ops.slices import Concat, Flip, Pad, Slice
from catgrad.ops.window import Window
from catgrad.programs.passes.prune import prune
from catgrad.programs.passes.rewrite import Rewriter, Values
from catgrad.programs.program import Apply, Function

MOVES = (Broadcast, Concat, Flip, Pad, Permute, Reshape, Slice, Window)
"""Operations whose results are elements of their operands, or zeros."""


def widen_late(function: Function) -> Function:
    """Move exact casts from 16 bits behind operations that move their results."""

    def move(rewriter: Rewriter, apply: Apply) -> Values | None:
        op, inputs, outputs = apply
        casts = [_widening(rewriter, value) for value in inputs]
        if None in casts or len({*casts}) != 1:
            return None
        cast, short = casts[0], [rewriter.producer[value].inputs[0] for value in inputs]
        assert cast is not None
        if isinstance(op, Cast) and op.after is cast.before:
            return None if _lacks_rows(rewriter, short[0]) else (short[0],)
        if not isinstance(op, MOVES):
            return None
        moved = rewriter.apply(op, *short)
        if outputs[0] in rewriter.names:
            rewriter.name(moved, rewriter.names[outputs[0]])
        return (rewriter.apply(cast, moved),)

    return prune(Rewriter(function).sweep(move))


def _widening(rewriter: Rewriter, value: int) -> Cast | None:
    """Return the cast that makes a value of 16-bit numbers, if one does."""
    op = rewriter.op(value)
    return op if isinstance(op, Cast) and op.widens and op.before.wide is op.after else None


def _lacks_rows(rewriter: Rewriter, value: int) -> bool:
    """Tell whether a value, perhaps reshaped, is permuted such that its last axis is another one before."""
    while isinstance(op := rewriter.op(value), Reshape):
        [value] = rewriter.producer[value].inputs
    return isinstance(op, Permute) and op.order[-1] != len(op.order) - 1
