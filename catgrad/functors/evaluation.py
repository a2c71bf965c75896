"""Evaluation mode: a functor that replaces dropout, batch norm and other operations of training."""

from __future__ import annotations

from catgrad.functors.local import LocalFunctor
from catgrad.functors.wide import in_wide
from catgrad.terms.block import any_operation, map_blocks
from catgrad.terms.build import build
from catgrad.terms.op import Op
from catgrad.terms.term import Term, singleton
from catgrad.types import NdArrayType


class Evaluation(LocalFunctor):
    """The functor that replaces each operation by its `evaluated`, if it has one."""

    def map_op(self, op: Op, inputs: tuple[NdArrayType, ...]) -> Term:
        if op.evaluated is not None:
            return build(in_wide(op, op.evaluated, inputs, op.outputs(*inputs)), inputs)
        changed = map_blocks(op, self)
        shorter = changed.pruned([True] * len(op.outputs(*inputs)))
        if shorter is None:
            return singleton(changed, *inputs)
        # Inputs that only training reads, such as the seed of random numbers, are removed.
        narrow, kept, _ = shorter
        return build(lambda *x: list(narrow.apply(*(x[i] for i in kept))), inputs)


def evaluation(term: Term) -> Term:
    """Return the model in evaluation mode."""
    if not any_operation(term, lambda op: op.evaluated is not None):
        return term
    return Evaluation()(term)  # type: ignore[no-any-return]
