"""Operations for whose value and reverse PyTorch has a pair of kernels, which share what the first keeps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from catgrad.functors.reverse import Reversed
from catgrad.ops.attention import Attention
from catgrad.ops.norms import AffineLayerNorm
from catgrad.programs.passes.rewrite import Values
from catgrad.programs.program import Apply, Function
from catgrad.terms.op import Op

name = "pullbacks"


class WithPullback(Op, register=False):
    """A value, and its vector-Jacobian product as a function of a cotangent."""

    op: Op

    @property
    def macro(self) -> str:
        """The name of the macro that spells it."""
        return f"Pulled{self.op.macro}"


class Pullback(Op, register=False):
    """That function applied."""

    op: Op

    @property
    def macro(self) -> str:
        """The name of the macro that spells it."""
        return f"Pullback{self.op.macro}"


PAIRED = (Attention, AffineLayerNorm)
"""Operations that PyTorch has such kernels for."""


def apply(function: Function) -> Function:
    """With a pullback where value and reverse of such an operation are computed at the same arguments."""
    wanted = {_reversed_at(step) for step in function.body} - {None}
    types: list[Any] = list(function.types)
    names, body, pullbacks = dict(function.names), [], dict[Any, int]()
    for step in function.body:
        op, inputs, outputs = step
        if isinstance(op, PAIRED) and (op, inputs) in wanted:
            pullbacks[op, inputs] = len(types)
            name = names.setdefault(outputs[0], op.macro.lower())
            names[len(types)] = f"{name}_back"
            step = Apply(WithPullback(op), inputs, (*outputs, len(types)))
            types.append(None)  # it is a function, and has no type of arrays
        elif isinstance(op, Reversed) and _reversed_at(step) in pullbacks:
            cotangents = inputs[op.count :]
            step = Apply(Pullback(op.op), (pullbacks[_reversed_at(step)], *cotangents), outputs)
        body.append(step)
    return replace(function, body=tuple(body), types=tuple(types), names=names) if pullbacks else function


def _reversed_at(step: Apply) -> tuple[Op, Values] | None:
    """The operation whose reverse this is, if it is such a one, and its arguments."""
    op = step.op
    if not (isinstance(op, Reversed) and isinstance(op.op, PAIRED)):
        return None
    return op.op, step.inputs[: op.count]
