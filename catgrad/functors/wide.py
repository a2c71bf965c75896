"""Mixed precision: 16-bit numbers are stored in 16 bits and computed with in 32."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from catgrad.ops.cast import cast
from catgrad.terms.op import NOTHING, Op
from catgrad.types import NdArrayType

Types = Sequence[NdArrayType]


def in_wide(op: Op, function: Callable[..., Any], inputs: Types, outputs: Types) -> Callable[..., Any]:
    """Compute the body or reverse of a 16-bit operation in float32, and round only the results.

    In 16 bits, an intermediate sum of exponentials or of squares would overflow, and every operation
    would round. The reverse of a linear map is one operation, which rounds once anyway.
    """
    once = op.rounds_once or (op.saves == NOTHING and op.body is None)
    if once or all(type.dtype.wide is type.dtype for type in inputs):
        return function

    def wide(*x: Any) -> list[Any]:
        results = function(*(cast(v, v.dtype.wide) for v in x))
        several = results if isinstance(results, (tuple, list)) else (results,)
        return [cast(result, type.dtype) for result, type in zip(several, outputs, strict=True)]

    return wide
