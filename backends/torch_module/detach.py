"""Detach: stop_gradient, which passes remove for other targets, is an operation for autograd."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from catgrad.functors.local import LocalFunctor
from catgrad.programs.program import Function
from catgrad.terms.block import map_blocks
from catgrad.terms.op import Op
from catgrad.terms.structural import StopGradient
from catgrad.terms.term import Term, singleton
from catgrad.types import Array, NdArrayType


class Detach(Op, register=False):
    """The identity, at which autograd stops."""

    result = "fixed"

    def type(self, x: NdArrayType) -> NdArrayType:
        """T -> T."""
        return x

    def ref(self, x: Array) -> Any:
        """Return the array."""
        return x


class _Detaching(LocalFunctor):
    """The functor that replaces StopGradient by Detach."""

    def map_op(self, op: Op, inputs: tuple[NdArrayType, ...]) -> Term:
        """Return Detach for StopGradient, else the operation."""
        return singleton(_detaching(op), *inputs)


_FUNCTOR = _Detaching()


def detached(function: Function, without_gradient: int) -> Function:
    """Replace StopGradient by Detach, except on paths to the first `without_gradient` results.

    These need no gradient; without Detach, they share common subexpressions with the others.
    """
    needed = set(function.results[without_gradient:])
    body = []
    for apply in reversed(function.body):
        if needed.intersection(apply.outputs):
            needed.update(apply.inputs)
            apply = apply._replace(op=_detaching(apply.op))
        body.append(apply)
    return replace(function, body=tuple(reversed(body)))


def _detaching(op: Op) -> Op:
    return Detach() if isinstance(op, StopGradient) else map_blocks(op, _FUNCTOR)
