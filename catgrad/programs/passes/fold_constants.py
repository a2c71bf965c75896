"""Constant folding; operations on empty arrays, which some libraries do not support, become zeros."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from catgrad.programs.passes.rewrite import Rewriter, Values, by_rule
from catgrad.programs.program import Apply
from catgrad.terms.op import Op
from catgrad.terms.structural import Constant
from catgrad.types import NdArrayType


@by_rule
def fold_constants(rewriter: Rewriter, apply: Apply) -> Values | None:
    """Evaluate elementwise operations and data movement on constants by `ref`."""
    op, inputs, outputs = apply
    types = [rewriter.types[value] for value in outputs]
    if inputs and _is_zero(rewriter, op, inputs, types):
        return tuple(rewriter.apply(Constant(type, 0)) for type in types)
    if not inputs or not (op.elementwise or op.rearranges):
        return None
    constants = [rewriter.op(value) for value in inputs]
    if not all(isinstance(c, Constant) for c in constants):
        return None
    (type,) = types
    if op.rearranges:
        number = constants[0].value  # type: ignore[union-attr]
    else:
        scalars = [np.full((), c.value, c.array_type.dtype.numpy) for c in constants]  # type: ignore[union-attr]
        with np.errstate(all="ignore"):
            number = np.asarray(op.compute(*scalars), type.dtype.numpy).item()
    return (rewriter.apply(Constant(type, number)),)


def _is_zero(rewriter: Rewriter, op: Op, inputs: Values, types: Sequence[NdArrayType]) -> bool:
    """Return whether the results have no elements, or only zeros because an operand has none."""
    if not op.may_fail and all(type.size == 0 for type in types):
        return True
    return op.multilinear and any(rewriter.types[value].size == 0 for value in inputs)
