"""Register renaming: a buffer for each value, so that no store overwrites what is read later.

A block is the body of one loop, or of the kernel. As array contraction leaves them, registers are stored
before they are read in each iteration; no value goes on from one to the next but by `Accumulate`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace

from catgrad.loops.ir.nest import Accumulate, Item, Loop, Rewritten, Store
from catgrad.loops.ir.scalar import Buffer, Load, Scalar
from catgrad.loops.passes.turns import is_number


def rename_registers(items: Sequence[Item]) -> list[Item]:
    """Give each store to a register a buffer of its own, if all stores to that register are in one block."""
    blocks: dict[Buffer, set[int]] = {}
    for number, block in enumerate(_blocks(items)):
        for s in block:
            if isinstance(s, Store) and is_number(s.buffer):
                blocks.setdefault(s.buffer, set()).add(number)
    return _renamed(items, {register for register, where in blocks.items() if len(where) == 1}, {})


def _blocks(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    yield items
    for item in items:
        if isinstance(item, Loop):
            yield from _blocks(item.body)


def _renamed(items: Sequence[Item], free: Collection[Buffer], names: Mapping[Buffer, Buffer]) -> list[Item]:
    names, result = dict(names), list[Item]()
    for item in items:
        if isinstance(item, Loop):
            result.append(replace(item, body=_renamed(item.body, free, names)))
            continue
        s = (
            LoadsReplaced({old: Load(new, ()) for old, new in names.items()}).statement(item)
            if names
            else item
        )
        if isinstance(s, Store) and s.buffer in free:
            names[s.buffer] = copy(s.buffer)
            s = replace(s, buffer=names[s.buffer])
        elif isinstance(s, Accumulate) and s.buffer in names:
            s = replace(s, buffer=names[s.buffer])
        result.append(s)
    return result


class LoadsReplaced(Rewritten):
    """Rewrite loads of registers to other scalars."""

    def __init__(self, values: Mapping[Buffer, Scalar]) -> None:
        super().__init__()
        self.values = values

    def _changed(self, old: Scalar) -> Scalar:
        value = self.values.get(old.buffer) if isinstance(old, Load) else None
        return super()._changed(old) if value is None else value
