"""List scheduling: kernels of a single element come as early as their operands allow."""

from __future__ import annotations

from collections.abc import Sequence

from catgrad.loops.ir.nest import Kernel, Loop, may_fail
from catgrad.loops.ir.steps import Lowered, Step
from catgrad.loops.machine import Machine


def scalars_first(lowered: Lowered, machine: Machine) -> Lowered:
    """Move kernels without loops to the front, each after the last step that touches what it touches."""
    return lowered.map(_moved)


def _moved(steps: Sequence[Step]) -> list[Step]:
    done: list[Step] = []
    for step in steps:
        place = len(done)
        if isinstance(step, Kernel) and not any(isinstance(item, Loop) for item in step.body):
            while place and not _depends(step, done[place - 1]):
                place -= 1
        done.insert(place, step)
    return done


def _depends(step: Kernel, earlier: Step) -> bool:
    """Tell whether a step must stay behind an earlier one."""
    if not isinstance(earlier, Kernel) or may_fail(earlier.body) or may_fail(step.body):
        return True
    writes = {b.home for b, _ in step.writes}
    touched = writes | {b.home for b, _ in step.reads}
    written = {b.home for b, _ in earlier.writes}
    return not written.isdisjoint(touched) or not writes.isdisjoint(b.home for b, _ in earlier.reads)
