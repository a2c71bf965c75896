"""Dead-store elimination: leave out statements that write arrays nobody reads, and the loops around them."""

from __future__ import annotations

from collections.abc import Sequence

from catgrad.loops.ir.nest import Check, Item, Kernel, Loop, Statement, statements
from catgrad.loops.ir.scalar import Buffer
from catgrad.loops.ir.steps import For, If, Lowered, Step, decisive, kernels


def without_dead_stores(lowered: Lowered) -> None:
    """Leave out each statement whose array neither is a result nor reaches one, a branch or a check."""
    decided: set[Buffer] | None = None
    while decided != (now := decisive(lowered.steps)):  # a branch left out needs no condition any more
        decided = now
        lowered.steps[:] = _live_steps(lowered.steps, _live(lowered))


def _live(lowered: Lowered) -> set[Buffer]:
    """Find the arrays that the results depend on, from the last statement backwards."""
    live = {*lowered.results, *decisive(lowered.steps)}
    every = [s for kernel in reversed(kernels(lowered.steps)) for s in reversed([*statements(kernel.body)])]
    while True:
        before = len(live)
        for s in every:
            if _is_live(s, live):
                live.update(array for array, _ in s.reads)
        if len(live) == before:
            return live


def _is_live(s: Statement, live: set[Buffer]) -> bool:
    return isinstance(s, Check) or s.buffer in live


def _live_steps(steps: Sequence[Step], live: set[Buffer]) -> list[Step]:
    kept: list[Step] = []
    for step in steps:
        if isinstance(step, Kernel):
            step.body = _live_items(step.body, live)
        elif isinstance(step, For):
            step.body = _live_steps(step.body, live)
        else:
            step.parts = (_live_steps(step.parts[0], live), _live_steps(step.parts[1], live))
        if any(step.parts) if isinstance(step, If) else step.body:
            kept.append(step)
    return kept


def _live_items(items: Sequence[Item], live: set[Buffer]) -> list[Item]:
    kept: list[Item] = []
    for item in items:
        if isinstance(item, Loop):
            item.body = _live_items(item.body, live)
            if item.body:
                kept.append(item)
        elif _is_live(item, live):
            kept.append(item)
    return kept
