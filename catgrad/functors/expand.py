"""Definitions become their bodies, all the way down to what a target has."""

from __future__ import annotations

from collections.abc import Callable

from catgrad.build import build
from catgrad.functors.local import LocalFunctor
from catgrad.op import Op
from catgrad.term import Term, singleton
from catgrad.types import NdArrayType


class Expand(LocalFunctor):
    """The functor that is the identity on operations the target `has`, and unfolds the others."""

    def __init__(self, has: Callable[[Op], bool]) -> None:
        super().__init__()
        self.has = has

    def map_op(self, op: Op, inputs: tuple[NdArrayType, ...]) -> Term:
        if self.has(op) or op.body is None:
            return singleton(op, *inputs)
        return self.expand(build(op.body, inputs))

    def expand(self, term: Term) -> Term:
        """The image of a term; the term itself if there is nothing to unfold."""
        if all(self.has(op) or op.body is None for op in term.H.x.table):
            return term
        return self.map_arrow(term)  # type: ignore[no-any-return]


def expand(term: Term, has: Callable[[Op], bool] = lambda op: False) -> Term:
    """Every definition in the term that `has` does not name, replaced by its body."""
    return Expand(has).expand(term)
