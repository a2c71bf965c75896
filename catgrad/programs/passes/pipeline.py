"""The passes of all targets, in order, repeated until a fixed point."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle, islice
from typing import Protocol, cast

from catgrad.errors import CatgradError
from catgrad.programs.passes import (
    erase_copies,
    fold_constants,
    fuse_loops,
    layout,
    prune,
    share,
    simplify,
    slice_early,
)
from catgrad.programs.program import Function


class Pass(Protocol):
    """A module or an object with a name and a function on functions."""

    @property
    def name(self) -> str: ...

    def apply(self, function: Function) -> Function: ...


PIPELINE = cast(
    Sequence[Pass], (erase_copies, fold_constants, simplify, share, layout, slice_early, fuse_loops, prune)
)

MAX_ROUNDS = 100
"""The maximum number of rounds; each rule shrinks code or moves it one way, so a fixed point exists."""


def optimise(function: Function, passes: Sequence[Pass] = PIPELINE) -> Function:
    """Apply all passes in turn until none of them changes the function."""
    settled = 0  # the number of consecutive passes that changed nothing
    for each in islice(cycle(passes), MAX_ROUNDS * len(passes)):
        before, function = function, each.apply(function)
        settled = settled + 1 if function is before else 0
        if settled == len(passes):
            return function
    raise CatgradError(
        f"the passes must reach a fixed point within {MAX_ROUNDS} rounds",
        f"{function.name} still changes",
        "report this: two rules undo each other",
    )
