"""Sequential reductions within one thread: a loop around an accumulation in a register."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from catgrad.loops.ir.index import Variable
from catgrad.loops.ir.nest import Axis, Item, Loop, Reduce, Replaced, rewritten, statements
from catgrad.loops.ir.scalar import Buffer, Space
from catgrad.loops.passes.reductions import reduced_serially


def serial(items: Sequence[Item]) -> list[Item]:
    """Write every reduction among items as loops around an accumulation."""
    return [new for item in items for new in _serial(item)]


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
