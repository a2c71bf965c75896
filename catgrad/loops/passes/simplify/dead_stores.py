"""Dead-store elimination: leave out statements that write arrays nobody reads, and the loops around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from catgrad.loops.ir.nest import (
    Await,
    Barrier,
    Check,
    Commit,
    Item,
    Kernel,
    Loop,
    Statement,
    Store,
    copies_itself,
    statements,
)
from catgrad.loops.ir.scalar import Buffer
from catgrad.loops.ir.steps import Attend, For, If, Lowered, Product, Step, conditions, every_step
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
    rows: list[tuple[Buffer, ...]] = []
    for step in every_step(lowered.steps):
        rows += [(row, *arrays) for row, arrays in step.rows.items()] if isinstance(step, For) else ()
        every += statements(step.body) if isinstance(step, Kernel) else ()
        every += [step] if isinstance(step, Product | Attend) else ()
    while True:
        before = len(live)
        for same in rows:
            live.update(same if not live.isdisjoint(same) else ())
        for s in reversed(every):
            if _is_live(s, live):
                live.update(buffer for buffer, _ in s.reads)
        if len(live) == before:
            return live


def _is_live(s: Statement | Product | Attend, live: set[Buffer]) -> bool:
    if isinstance(s, Product | Attend):
        return any(buffer in live for buffer, _ in s.writes)
    return isinstance(s, (Check, Commit, Barrier, Await)) or s.buffer in live


def _live_steps(steps: Sequence[Step], live: set[Buffer]) -> list[Step]:
    kept: list[Step] = []
    for step in steps:
        if isinstance(step, Kernel):
            step = Kernel(_selected(step.body, lambda s: _is_live(s, live)))
        if isinstance(step, Product | Attend):
            used = _is_live(step, live)
        else:
            used = any(step.parts) if isinstance(step, If) else bool(step.body)
        if used:
            kept.append(step)
    return kept


def _selected(items: Sequence[Item], is_kept: Callable[[Statement], bool]) -> list[Item]:
    """Return the items with some of the statements, and without loops around none."""
    kept: list[Item] = []
    for item in items:
        if isinstance(item, Loop):
            body = _selected(item.body, is_kept)
            if body:
                kept.append(replace(item, body=body))
        elif is_kept(item):
            kept.append(item)
    return kept


def eliminate_self_copies(lowered: Lowered, machine: Machine) -> Lowered:
    """Leave out statements that copy elements of results from the arguments that these overwrite."""
    return lowered.map(lambda steps: [step for each in steps if (step := _without_self_copies(each))])


def _without_self_copies(step: Step) -> Step | None:
    """Return a step without such statements; None if nothing is left."""
    if not isinstance(step, Kernel) or not any(map(_overwrites_itself, statements(step.body))):
        return step
    body = _selected(step.body, lambda s: not _overwrites_itself(s))
    return Kernel(body) if body else None


def _overwrites_itself(s: Statement) -> bool:
    return isinstance(s, Store) and s.buffer.alias is not None and copies_itself(s, s.buffer.alias)
