"""Sequential reductions within one thread: a loop around an accumulation in a register."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.index import Variable, index
from catgrad.loops.ir.nest import (
    Item,
    Loop,
    Reduce,
    Replaced,
    Substituted,
    perfect_nest,
    rewritten,
    statements,
)
from catgrad.loops.ir.scalar import Buffer, Space
from catgrad.loops.passes.schedule.reductions import reduced_serially


def serial(items: Sequence[Item]) -> list[Item]:
    """Write every reduction among items as loops around an accumulation, over equal axes as one."""
    done: list[Item] = []
    for is_reduction, group in groupby(items, lambda item: isinstance(item, Reduce)):
        together: list[Item] = []
        for item in group:
            together = _joined(together, _serial(item)) if is_reduction else [*together, *_serial(item)]
        done += together
    return done


def _joined(first: list[Item], second: list[Item]) -> list[Item]:
    """Join the last loops of items with those of the items that follow, if these are over equal axes."""
    k = next((k for k in reversed(range(len(first))) if isinstance(first[k], Loop)), None)
    j = next((j for j, item in enumerate(second) if isinstance(item, Loop)), None)
    written = {buffer.home for item in first for buffer, _ in item.writes}
    if k is None or j is None or any(b.home in written for item in second for b, _ in item.reads):
        return [*first, *second]
    (chain, body), (other, more) = perfect_nest([first[k]]), perfect_nest([second[j]])
    if [(v.extent, v.step) for v in chain] != [(v.extent, v.step) for v in other]:
        return [*first, *second]
    more = rewritten(more, Substituted(dict(zip(other, map(index, chain), strict=True))))
    loops: list[Item] = [*body, *more]
    for variable in reversed(chain):
        loops = [Loop(variable, loops)]
    return [*first[:k], *second[:j], *loops, *first[k + 1 :], *second[j + 1 :]]


def one_thread(items: list[Item]) -> Loop:
    """Run items in the first thread of a team."""
    return Loop(Variable(1, "one"), items, axis=Axis.THREAD)


def _serial(item: Item) -> list[Item]:
    if isinstance(item, Loop):
        return [replace(item, body=serial(item.body))]
    if not isinstance(item, Reduce):
        return [item]
    written = reduced_serially(item)
    own = {buffer: replace(buffer, space=Space.REGISTER) for buffer in _accumulators(written, item)}
    return rewritten(written, Replaced(own))


def _accumulators(items: Sequence[Item], reduce: Reduce) -> Iterator[Buffer]:
    return (b for b in {b: None for s in statements(items) for b, _ in s.writes} if b is not reduce.buffer)
