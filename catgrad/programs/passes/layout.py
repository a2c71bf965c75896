"""Layout: contractions absorb permutations of axes, as they read operands in any order."""

from __future__ import annotations

from catgrad.ops.contract import Contract
from catgrad.ops.shape import Permute
from catgrad.programs.passes.rewrite import Rewriter, Values
from catgrad.programs.program import Apply, Function


def layout(function: Function) -> Function:
    """Absorb each Permute before a contraction, or as its only reader, into the labels."""
    uses = function.uses()

    def absorb(rewriter: Rewriter, apply: Apply) -> Values | None:
        op, inputs, _ = apply
        if isinstance(op, Contract):
            return _operands(rewriter, op, inputs)
        if isinstance(op, Permute) and inputs[0] < len(uses) and uses[inputs[0]] == 1:
            return _result(rewriter, op, inputs[0])
        return None

    return Rewriter(function).sweep(absorb)


def _operands(rewriter: Rewriter, op: Contract, inputs: Values) -> Values | None:
    before = [rewriter.op(value) for value in inputs]
    if not any(isinstance(inner, Permute) for inner in before):
        return None
    labels, sources = [], []
    for axes, inner, value in zip((op.left, op.right), before, inputs, strict=True):
        if isinstance(inner, Permute):
            # Axis i of the operand is axis order[i] of its source, and keeps its label there.
            by_source = dict(zip(inner.order, axes, strict=True))
            axes = tuple(by_source[axis] for axis in range(len(axes)))
            value = rewriter.producer[value].inputs[0]
        labels.append(axes)
        sources.append(value)
    return (rewriter.apply(Contract(labels[0], labels[1], op.out), *sources),)


def _result(rewriter: Rewriter, op: Permute, value: int) -> Values | None:
    inner = rewriter.producer.get(value)
    if inner is None or not isinstance(inner.op, Contract):
        return None
    out = tuple(inner.op.out[axis] for axis in op.order)
    return (rewriter.apply(Contract(inner.op.left, inner.op.right, out), *inner.inputs),)
