"""The passes of all targets, in order, repeated until a fixed point."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle, islice

from catgrad.errors import CatgradError
from catgrad.programs.passes.erase_copies import erase_copies
from catgrad.programs.passes.fold_constants import fold_constants
from catgrad.programs.passes.fuse_loops import fuse_loops
from catgrad.programs.passes.layout import layout
from catgrad.programs.passes.prune import prune
from catgrad.programs.passes.rewrite import Pass
from catgrad.programs.passes.share import share
from catgrad.programs.passes.simplify import simplify
from catgrad.programs.passes.slice_early import slice_early
from catgrad.programs.program import Function

PIPELINE: Sequence[Pass] = (
    erase_copies, fold_constants, simplify, share, layout, slice_early, fuse_loops, prune,
)  # fmt: skip

MAX_ROUNDS = 100
"""The maximum number of rounds; each rule shrinks code or moves it one way, so a fixed point exists."""


def optimise(function: Function, passes: Sequence[Pass] = PIPELINE) -> Function:
    """Apply all passes in turn until none of them changes the function."""
    settled = 0  # the number of consecutive passes that changed nothing
    for each in islice(cycle(passes), MAX_ROUNDS * len(passes)):
        before, function = function, each(function)
        settled = settled + 1 if function is before else 0
        if settled == len(passes):
            return function
    raise CatgradError(
        f"the passes must reach a fixed point within {MAX_ROUNDS} rounds",
        f"{function.name} still changes",
        "report this: two rules undo each other",
    )
