"""The passes every target gets, in order, repeated until nothing changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast

from catgrad.passes import erase_copies, fold_constants, layout, prune, share, simplify
from catgrad.program import Function


class Pass(Protocol):
    """A module or an object: what it is called, and what it does to a function."""

    @property
    def name(self) -> str: ...

    def apply(self, function: Function) -> Function: ...


PIPELINE = cast(Sequence[Pass], (erase_copies, fold_constants, simplify, share, layout, prune))

LIMIT = 20
"""Rounds after which to stop: every rule shrinks or moves code one way, so this is never met."""


def optimise(function: Function, passes: Sequence[Pass] = PIPELINE) -> Function:
    """The function after all passes, again and again until none of them changes it."""
    for _ in range(LIMIT):
        before = function
        for each in passes:
            function = each.apply(function)
        if function is before:
            break
    return function
