"""Pullbacks: operations with a pair of PyTorch kernels, for value and reverse, that share a residual."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from catgrad.functors.reverse import Reversed
from catgrad.ops.attention import Attention
from catgrad.ops.norms import AffineLayerNorm
from catgrad.programs.passes.rewrite import Values
from catgrad.programs.program import Apply, Function
from catgrad.terms.op import Op


class WithPullback(Op, register=False):
    """The value of an operation, and its pullback as a function."""

    op: Op

    @property
    def macro(self) -> str:
        """The name of the macro that prints it."""
        return f"Pulled{self.op.macro}"


class Pullback(Op, register=False):
    """The application of a pullback, R[f], to a cotangent."""

    reverse: Reversed

    @property
    def macro(self) -> str:
        """The name of the macro that prints it."""
        return f"Pullback{self.reverse.op.macro}"

    def result_name(self, *operands: str) -> str:
        """Return the name of the reverse's result."""
        return self.reverse.result_name(*operands)


PAIRED = (Attention, AffineLayerNorm)
"""Operations with such kernels in PyTorch."""


def pullbacks(function: Function) -> Function:
    """Pair value and reverse of such operations on the same arguments, by a pullback."""
    wanted = {_reversed_at(step) for step in function.body} - {None}
    types: list[Any] = list(function.types)
    names, body, pulled = dict(function.names), [], dict[Any, int]()
    for step in function.body:
        op, inputs, outputs = step
        if isinstance(op, PAIRED) and (op, inputs) in wanted:
            pulled[op, inputs] = len(types)
            name = names.setdefault(outputs[0], op.macro.lower())
            names[len(types)] = f"{name}_back"
            step = Apply(WithPullback(op), inputs, (*outputs, len(types)))
            types.append(None)  # a function, which has no array type
        elif isinstance(op, Reversed) and _reversed_at(step) in pulled:
            cotangents = inputs[op.count :]
            step = Apply(Pullback(op), (pulled[_reversed_at(step)], *cotangents), outputs)
        body.append(step)
    return replace(function, body=tuple(body), types=tuple(types), names=names) if pulled else function


def _reversed_at(step: Apply) -> tuple[Op, Values] | None:
    """Return the operation of which a step is the reverse, with its arguments, or None."""
    op = step.op
    if not (isinstance(op, Reversed) and isinstance(op.op, PAIRED)):
        return None
    return op.op, step.inputs[: op.count]
