"""Casts around operations: 16-bit numbers are stored in 16 bits and computed with in 32."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from catgrad.ops.cast import cast
from catgrad.terms.op import NOTHING, Op
from catgrad.types import Dtype, NdArrayType

Types = Sequence[NdArrayType]


def in_wide(op: Op, function: Callable[..., Any], inputs: Types, outputs: Types) -> Callable[..., Any]:
    """Compute the body or reverse of a 16-bit operation in float32, and round only the results.

    In 16 bits, an intermediate sum of exponentials or of squares would overflow, and every operation
    would round. The reverse of a linear map is one operation, which rounds once anyway.
    """
    once = op.rounds_once or (op.saves == NOTHING and op.body is None)
    if once or all(type.dtype.wide is type.dtype for type in inputs):
        return function

    return casting(function, lambda dtype: dtype.wide, outputs)


def casting(
    function: Callable[..., Any], change: Callable[[Dtype], Dtype], outputs: Types
) -> Callable[..., Any]:
    """Cast the arguments of a function to changed dtypes, and its results to those of the outputs."""

    def cast_around(*x: Any) -> list[Any]:
        results = function(*(cast(v, change(v.dtype)) for v in x))
        several = results if isinstance(results, (tuple, list)) else (results,)
        return [cast(result, type.dtype) for result, type in zip(several, outputs, strict=True)]

    return cast_around
