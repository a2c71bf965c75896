"""Barrier insertion: threads of a team wait where one touches what another writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.dependence import Iterations
from catgrad.loops.ir.index import Variable, index
from catgrad.loops.ir.nest import (
    Access,
    Barrier,
    Indices,
    Item,
    Kernel,
    Loop,
    Substituted,
    bound_variables,
    perfect_nest,
    statements,
)
from catgrad.loops.ir.scalar import Buffer, Space

PRIVATE = (Space.REGISTER, Space.LOCAL, Space.LITERAL)


def with_barriers(kernel: Kernel) -> Kernel:
    """Insert the barriers that the teams of a kernel need; a nest that has some has all."""
    own = [any(isinstance(s, Barrier) for s in statements([item])) for item in kernel.body]
    return Kernel([i if done else _teams(i) for i, done in zip(kernel.body, own, strict=True)])


def _teams(item: Item) -> Item:
    if not isinstance(item, Loop) or item.axis is Axis.GRID:
        return item
    if len(item.body) == 1 and isinstance(item.body[0], Loop) and item.body[0].axis is item.axis:
        return replace(item, body=[_teams(item.body[0])])
    return replace(item, body=_synchronised(item.body))


def _synchronised(items: Sequence[Item]) -> list[Item]:
    done: list[Item] = []
    since: list[Item] = []
    for item in items:
        if isinstance(item, Loop) and item.axis is not Axis.THREAD:
            item = replace(item, body=_iteration(item.body))
        if any(_conflict(before, item) for before in since):
            done.append(Barrier())
            since = []
        done.append(item)
        since.append(item)
    return done


def _iteration(body: Sequence[Item]) -> list[Item]:
    """Synchronise the body of a loop that all threads run, also its end with its beginning."""
    done = _synchronised(body)
    places = [k for k, item in enumerate(done) if isinstance(item, Barrier)]
    head, tail = (done[: places[0]], done[places[-1] :]) if places else (done, done)
    return [*done, Barrier()] if any(_conflict(a, b) for a in tail for b in head) else done


def _conflict(before: Item, after: Item) -> bool:
    """Tell whether two threads may touch an element in two items, which one of them writes."""
    written = {b.home for b, _ in (*before.writes, *after.writes) if b.space not in PRIVATE}
    common = written & {b.home for b in _touched(before)} & {b.home for b in _touched(after)}
    return any(not _is_same_thread(before, after, buffer) for buffer in common)


def _touched(item: Item) -> set[Buffer]:
    return {buffer for buffer, _ in (*item.reads, *item.writes)}


def _is_same_thread(before: Item, after: Item, buffer: Buffer) -> bool:
    """Prove that whichever thread touches an element in one item does so in the other."""
    first, second = _threads(before), _threads(after)
    if [v.extent for v in first] != [v.extent for v in second] or not first:
        return False
    if all(v.extent == 1 for v in first):
        return True
    same = Substituted(dict(zip(second, map(index, first), strict=True)))
    accesses = [*_accesses(before, buffer), *map(same.indices, _accesses(after, buffer))]
    inner = bound_variables([before, after])
    changed = [b for b, _ in (*before.writes, *after.writes)]
    return all(
        Iterations(v, inner.difference(first[: k + 1]), changed).are_separate(buffer, accesses)
        for k, v in enumerate(first)
    )


def _threads(item: Item) -> list[Variable]:
    return perfect_nest([item], lambda loop: loop.axis is Axis.THREAD)[0]


def _accesses(item: Item, buffer: Buffer) -> list[Indices]:
    every: list[Access] = [*item.reads, *item.writes]
    return [indices for b, indices in every if b.home is buffer]
