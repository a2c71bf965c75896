"""The passes every target gets, in order, repeated until nothing changes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle, islice
from typing import Protocol, cast

from catgrad.errors import CatgradError
from catgrad.programs.passes import erase_copies, fold_constants, layout, prune, share, simplify
from catgrad.programs.program import Function


class Pass(Protocol):
    """A module or an object: what it is called, and what it does to a function."""

    @property
    def name(self) -> str: ...

    def apply(self, function: Function) -> Function: ...


PIPELINE = cast(Sequence[Pass], (erase_copies, fold_constants, simplify, share, layout, prune))

LIMIT = 100
"""Rounds within which every function settles, because each rule shrinks or moves code one way."""


def optimise(function: Function, passes: Sequence[Pass] = PIPELINE) -> Function:
    """The function after all passes, again and again until none of them changes it."""
    settled = 0  # so many passes in a row have changed nothing
    for each in islice(cycle(passes), LIMIT * len(passes)):
        before, function = function, each.apply(function)
        settled = settled + 1 if function is before else 0
        if settled == len(passes):
            return function
    raise CatgradError(
        f"the passes must settle within {LIMIT} rounds",
        f"{function.name} still changes",
        "report this: two rules undo each other",
    )
