"""16-bit numbers are stored in 16 bits and computed with in 32."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from catgrad.ops.cast import cast
from catgrad.terms.op import NOTHING, Op
from catgrad.types import NdArrayType

Types = Sequence[NdArrayType]


def in_wide(op: Op, function: Callable[..., Any], inputs: Types, outputs: Types) -> Callable[..., Any]:
    """An operation's body or reverse, in float32 where it has 16 bits, and rounded at the end only.

    Between, a sum of exponentials or of squares would overflow, and every step would round. Linear
    maps have a reverse that is one operation, and need no care.
    """
    once = op.rounds_once or (op.saves == NOTHING and op.body is None)
    if once or all(type.dtype.wide is type.dtype for type in inputs):
        return function

    def wide(*x: Any) -> list[Any]:
        results = function(*(cast(v, v.dtype.wide) for v in x))
        several = results if isinstance(results, (tuple, list)) else (results,)
        return [cast(result, type.dtype) for result, type in zip(several, outputs, strict=True)]

    return wide
