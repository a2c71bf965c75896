"""Constant folding of indices, after unrolling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from catgrad.loops.ir.nest import Item, Rewriter, rewritten
from catgrad.loops.ir.scalar import Bounds, IndexValue, Masked, Number, Scalar
from catgrad.terms.structural import Constant
from catgrad.types import NdArrayType


def fold_constants(items: Sequence[Item]) -> list[Item]:
    """Replace indices without variables by numbers, and leave out bounds that always or never hold."""
    return rewritten(items, _Folded())


class _Folded(Rewriter):
    def _changed(self, old: Scalar) -> Scalar:
        if isinstance(old, IndexValue) and not old.index.terms and isinstance(old.index.constant, int):
            return Number(Constant(NdArrayType((), old.dtype), old.index.constant))
        return self._masked(old) if isinstance(old, Masked) else super()._changed(old)

    def _masked(self, old: Masked) -> Scalar:
        decided = [_decided(c) for c in old.conditions]
        if False in decided:
            return self.scalar(old.outside)
        undecided = tuple(c for c, holds in zip(old.conditions, decided, strict=True) if holds is None)
        return super()._changed(replace(old, conditions=undecided)) if undecided else self.scalar(old.inside)


def _decided(bounds: Bounds) -> bool | None:
    """Decide whether an index is within bounds; None if that depends on a variable or a symbolic size."""
    index, size = bounds.index, bounds.size
    if index.terms or not isinstance(index.constant, int) or not isinstance(size, int):
        return None
    return (not bounds.below or index.constant >= 0) and (not bounds.above or index.constant < size)
