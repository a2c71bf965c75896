"""Dead-store elimination: leave out statements that write arrays nobody reads, and the loops around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from catgrad.loops.ir.nest import Barrier, Check, Item, Kernel, Loop, Statement, Store, statements
from catgrad.loops.ir.scalar import Buffer, Load
from catgrad.loops.ir.steps import Attend, If, Lowered, Product, Step, conditions, every_step
from catgrad.loops.machine import Machine


def eliminate_dead_stores(lowered: Lowered, machine: Machine) -> Lowered:
    """Leave out each statement whose buffer is no result, and reaches no result, branch or check."""
    decided: set[Buffer] | None = None
    while decided != (now := conditions(lowered.steps)):  # a branch left out needs no condition any more
        decided, live = now, _live(lowered)
        lowered = lowered.map(lambda steps, live=live: _live_steps(steps, live))  # type: ignore[misc]
    return lowered


def _live(lowered: Lowered) -> set[Buffer]:
    """Find the buffers that the results depend on, from the last statement backwards."""
    live = {*lowered.results, *conditions(lowered.steps)}
    every: list[Statement | Product | Attend] = []
    for step in every_step(lowered.steps):
        every += statements(step.body) if isinstance(step, Kernel) else ()
        every += [step] if isinstance(step, Product | Attend) else ()
    while True:
        before = len(live)
        for s in reversed(every):
            if _is_live(s, live):
                live.update(buffer for buffer, _ in s.reads)
        if len(live) == before:
            return live


def _is_live(s: Statement | Product | Attend, live: set[Buffer]) -> bool:
    if isinstance(s, Product | Attend):
        return any(buffer in live for buffer, _ in s.writes)
    return isinstance(s, (Check, Barrier)) or s.buffer in live


def _live_steps(steps: Sequence[Step], live: set[Buffer]) -> list[Step]:
    kept: list[Step] = []
    for step in steps:
        if isinstance(step, Kernel):
            step = Kernel(_live_items(step.body, live))
        if isinstance(step, Product | Attend):
            used = _is_live(step, live)
        else:
            used = any(step.parts) if isinstance(step, If) else bool(step.body)
        if used:
            kept.append(step)
    return kept


def _live_items(items: Sequence[Item], live: set[Buffer]) -> list[Item]:
    kept: list[Item] = []
    for item in items:
        if isinstance(item, Loop):
            body = _live_items(item.body, live)
            if body:
                kept.append(replace(item, body=body))
        elif _is_live(item, live):
            kept.append(item)
    return kept


def eliminate_self_copies(lowered: Lowered, machine: Machine) -> Lowered:
    """Leave out kernels that copy results from the arguments that they overwrite."""
    return lowered.map(lambda steps: [step for step in steps if not _copies_itself(step)])


def _copies_itself(step: Step) -> bool:
    return isinstance(step, Kernel) and all(
        isinstance(s, Store)
        and isinstance(s.scalar, Load)
        and s.buffer.alias is s.scalar.buffer
        and s.indices == s.scalar.indices
        for s in statements(step.body)
    )
