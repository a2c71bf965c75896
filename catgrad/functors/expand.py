"""Expansion of definitions: each is replaced by its body, recursively, unless the target prints it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from catgrad.functors.local import LocalFunctor
from catgrad.functors.wide import in_wide
from catgrad.terms.block import any_operation, blocks, map_blocks
from catgrad.terms.build import build
from catgrad.terms.op import Op
from catgrad.terms.structural import result
from catgrad.terms.term import Term, singleton
from catgrad.types import NdArrayType


class Expand(LocalFunctor):
    """The functor that is the identity on operations that a target `has`, and expands the others.

    Use one instance for all terms of a program: images are cached.
    """

    def __init__(self, has: Callable[[Op], bool] = lambda op: False) -> None:
        super().__init__()
        self.has = has

    def __call__(self, term: Term) -> Term:
        if not any_operation(term, lambda op: op.body is not None and not self.has(op)):
            return term
        return self.map_arrow(term)

    def keeps(self, op: Op) -> bool:
        return (op.body is None or self.has(op)) and not blocks(op)

    def map_op(self, op: Op, inputs: tuple[NdArrayType, ...]) -> Term:
        if self.has(op) or op.body is None:
            return singleton(map_blocks(op, self), *inputs)
        return self(build(in_wide(op, _named(op), inputs, op.outputs(*inputs)), inputs))


def _named(op: Op) -> Callable[..., Any]:
    """Return the body of a definition, whose result has its name if it should."""
    body = op.body
    assert body is not None
    return (lambda x: result(op.result_name(""), body(x))) if op.names_result else body
