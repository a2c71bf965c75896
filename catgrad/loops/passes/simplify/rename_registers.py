"""Register renaming: a buffer for each value, so that no store overwrites what is read later.

A block is the body of one loop, or of the kernel. As array contraction leaves them, registers are stored
before they are read in each iteration; only `Accumulate` carries a value from one to the next.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from catgrad.loops.ir.nest import Item, Loop, Replaced, Store
from catgrad.loops.ir.scalar import Buffer


def rename_registers(items: Sequence[Item]) -> list[Item]:
    """Give each store to a register a buffer of its own, if all stores to that register are in one block."""
    blocks: dict[Buffer, set[int]] = {}
    for number, block in enumerate(_blocks(items)):
        for s in block:
            if isinstance(s, Store) and s.buffer.is_register:
                blocks.setdefault(s.buffer, set()).add(number)
    return _renamed(items, {register for register, where in blocks.items() if len(where) == 1}, {})


def _blocks(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    yield items
    for item in items:
        if isinstance(item, Loop):
            yield from _blocks(item.body)


def _renamed(items: Sequence[Item], free: Collection[Buffer], names: Mapping[Buffer, Buffer]) -> list[Item]:
    result: list[Item] = []
    for item in items:
        if isinstance(item, Loop):
            result.append(replace(item, body=_renamed(item.body, free, names)))
            continue
        change = Replaced(names)
        if isinstance(item, Store) and item.buffer in free:
            names = {**names, item.buffer: replace(item.buffer)}
            scalar, indices = change.scalar(item.scalar), change.indices(item.indices)
            result.append(replace(item, buffer=names[item.buffer], indices=indices, scalar=scalar))
        else:
            result.append(item.map(change))
    return result
