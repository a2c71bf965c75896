"""What depends on constants only is a constant."""

from __future__ import annotations

import numpy as np

from catgrad.passes.rewrite import Rewriter, Values
from catgrad.program import Apply, Function
from catgrad.structural import Constant

name = "fold-constants"


def apply(function: Function) -> Function:
    """With element-by-element operations and rearrangements of constants computed by `ref`."""
    return Rewriter(function).sweep(_fold)


def _fold(rewriter: Rewriter, apply: Apply) -> Values | None:
    op, inputs, _ = apply
    if not inputs or not (op.elementwise or op.rearranges):
        return None
    constants = [rewriter.op(value) for value in inputs]
    if not all(isinstance(c, Constant) for c in constants):
        return None
    (type,) = op.outputs(*(rewriter.types[value] for value in inputs))
    if op.rearranges:
        number = constants[0].value  # type: ignore[union-attr]
    else:
        scalars = [np.full((), c.value, c.array_type.dtype.numpy) for c in constants]  # type: ignore[union-attr]
        with np.errstate(all="ignore"):
            number = np.asarray(op.compute(*scalars), type.dtype.numpy).item()
    return (rewriter.apply(Constant(type, number)),)
