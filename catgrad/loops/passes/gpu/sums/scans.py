"""Prefix sums by the threads of a team: each sums a run of terms, then starts again from the sum before it.

Source: Blelloch 1990, Prefix sums and their applications, section 1.2.1
"""

from __future__ import annotations

from typing import NamedTuple

from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.index import Index, Variable, index
from catgrad.loops.ir.nest import (
    Accumulate,
    Item,
    Loop,
    Replaced,
    Store,
    Substituted,
    rewritten,
)
from catgrad.loops.ir.scalar import Bounds, Buffer, Load, Space, number
from catgrad.loops.passes.gpu.sums.serial import one_thread
from catgrad.ops.arithmetic import Add
from catgrad.types import NdArrayType

MIN_TERMS = 2**8
"""Terms of a prefix sum that is worth a team."""


class Scan(NamedTuple):
    """A loop that adds to a register, and stores scalars of what it has come to."""

    loop: Loop
    add: Accumulate
    stores: list[Store]


def prefix_sum(item: Item) -> Scan | None:
    """Recognise a loop of a known number of iterations that is nothing but a long prefix sum."""
    if not isinstance(item, Loop) or not isinstance(item.variable.extent, int) or len(item.body) < 2:
        return None
    add, *stores = item.body
    if not isinstance(add, Accumulate) or not all(isinstance(s, Store) for s in stores):
        return None
    arrays = {b.home for s in stores for b, _ in s.writes if not b.is_register}
    read = {b.home for s in item.body for b, _ in s.reads}
    written = {s.buffer for s in stores}  # type: ignore[union-attr]
    sums = isinstance(add.op, Add) and add.buffer.is_register and add.buffer not in written
    found = sums and arrays.isdisjoint(read) and written.isdisjoint(b for b, _ in add.reads)
    return Scan(item, add, stores) if found and item.variable.extent >= MIN_TERMS else None  # type: ignore[arg-type]


def scanned(scan: Scan, threads: int) -> list[Item]:
    """Compute a prefix sum by the threads of a team."""
    loop, add, stores = scan
    count = loop.variable.extent
    assert isinstance(count, int)
    run, dtype = -(-count // threads), add.buffer.type.dtype
    parts = Buffer("parts", NdArrayType((threads,), dtype), Space.SHARED)

    def over_runs(body: list[Item], before: list[Item], after: list[Item], t: Variable) -> Item:
        k = Variable(run, "term")
        place = index(t) * run + index(k)
        inside = () if count == threads * run else (Bounds(place, count, False, True),)
        change = Substituted({loop.variable: place})
        runs = Loop(k, [s.map(change) for s in body], conditions=inside)  # type: ignore[union-attr]
        return Loop(t, [*before, runs, *after], axis=Axis.THREAD)

    t, again = Variable(threads, "t"), Variable(threads, "t")
    own, running, old = (_register(name, parts) for name in ("own", "running", "old"))
    sums: list[Item] = [Accumulate(own, (), Add(), add.scalar)]
    begin, end = Store(own, (), number(0, dtype)), Store(parts, (index(t),), Load(own, ()))
    total = _register("total", parts)
    outputs: list[Item] = [
        Accumulate(total, (), Add(), add.scalar),
        *rewritten(stores, Replaced({add.buffer: total})),
    ]
    return [
        over_runs(sums, [begin], [end], t),
        one_thread(_offsets(parts, running, old, Load(add.buffer, add.indices))),
        over_runs(outputs, [Store(total, (), Load(parts, (index(again),)))], [], again),
    ]


def _offsets(parts: Buffer, running: Buffer, old: Buffer, start: Load) -> list[Item]:
    """Replace the sum of each run by that of all before it."""
    s = Variable(parts.type.shape[0], "s")
    at: tuple[Index, ...] = (index(s),)
    body: list[Item] = [
        Store(old, (), Load(parts, at)),
        Store(parts, at, Load(running, ())),
        Accumulate(running, (), Add(), Load(old, ())),
    ]
    return [Store(running, (), start), Loop(s, body)]


def _register(name: str, like: Buffer) -> Buffer:
    return Buffer(name, NdArrayType((), like.type.dtype), Space.REGISTER)
