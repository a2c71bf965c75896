"""Sums of 16-bit numbers in float32, for libraries that round after every term or lack the dtype."""

from __future__ import annotations

from dataclasses import dataclass

from catgrad.ops.cast import Cast
from catgrad.programs.passes.rewrite import Rewriter, Values
from catgrad.programs.program import Apply, Function
from catgrad.terms.op import Op
from catgrad.types import Dtype


@dataclass(frozen=True)
class SumsInFloat32:
    """The pass that computes these operations on 16-bit numbers in float32, and rounds once."""

    ops: tuple[type[Op], ...]

    def __call__(self, function: Function) -> Function:
        """Insert casts around them."""
        return Rewriter(function).sweep(self._widen)

    def _widen(self, rewriter: Rewriter, apply: Apply) -> Values | None:
        op, inputs, outputs = apply
        narrow = [rewriter.types[v].dtype.wide is not rewriter.types[v].dtype for v in inputs]
        if not isinstance(op, self.ops) or not any(narrow):
            return None
        wide = [
            _cast(rewriter, v, rewriter.types[v].dtype.wide) if n else v
            for v, n in zip(inputs, narrow, strict=True)
        ]
        return (_cast(rewriter, rewriter.apply(op, *wide), rewriter.types[outputs[0]].dtype),)


def _cast(rewriter: Rewriter, value: int, dtype: Dtype) -> int:
    before = rewriter.types[value].dtype
    return value if before is dtype else rewriter.apply(Cast(before, dtype), value)
