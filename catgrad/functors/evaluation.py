"""Models behave differently while they are trained (dropout, batch norm) and when they are used."""

from __future__ import annotations

from catgrad.block import any_operation, map_blocks
from catgrad.build import build
from catgrad.functors.local import LocalFunctor
from catgrad.functors.wide import in_wide
from catgrad.op import Op
from catgrad.term import Term, singleton
from catgrad.types import NdArrayType


class Evaluation(LocalFunctor):
    """The functor that puts `evaluated` for each operation that has it."""

    def map_op(self, op: Op, inputs: tuple[NdArrayType, ...]) -> Term:
        if op.evaluated is not None:
            return build(in_wide(op, op.evaluated, inputs, op.outputs(*inputs)), inputs)
        return singleton(map_blocks(op, self), *inputs)


def evaluation(term: Term) -> Term:
    """The model as it is used: f for use, where f is for training."""
    if not any_operation(term, lambda op: op.evaluated is not None):
        return term
    return Evaluation()(term)  # type: ignore[no-any-return]
