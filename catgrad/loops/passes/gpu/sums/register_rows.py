"""Register blocking of rows: each thread of a team keeps the elements of a row that it meets again.

    for k in range(⌈n / threads⌉):            unrolled, so that row[k] is a register
        row[k] = x[i, k * threads + thread]   loaded once
    ...                                       later loops read row[k]

An array of the team whose elements no thread passes to another one needs no shared memory either.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.index import ZERO, Index, Variable, index, is_below
from catgrad.loops.ir.nest import (
    Accumulate,
    Indices,
    Item,
    Kernel,
    Loop,
    Rewriter,
    Statement,
    Store,
    Substituted,
    rewritten,
)
from catgrad.loops.ir.scalar import Bounds, Buffer, Compute, Load, Scalar, Space, converted
from catgrad.loops.machine import Machine
from catgrad.loops.passes.gpu.products.thread_tiles import unrolled
from catgrad.loops.passes.gpu.sums.row_reuse import Place, Rows, row_extents
from catgrad.ops.cast import Cast
from catgrad.types import NdArrayType


def in_register_rows(kernel: Kernel, machine: Machine) -> tuple[Kernel, set[Buffer]]:
    """Keep rows of a team in registers; also returns the arrays of these, of which each thread has one."""
    [loop] = kernel.body
    own = set[Buffer]()
    if not isinstance(loop, Loop) or not loop.axis.has_team or not machine.gpu.row_registers:
        return kernel, own
    for extent in row_extents(loop):
        rows = Rows(loop, extent)
        if rows.places and rows.each(loop.threads) > 1:  # a single element is loaded again as fast
            threads = loop.threads if own else _threads(rows, machine)
            kept = _Kept(rows, threads, machine.gpu.row_registers)
            loop = _resized(kept.loop(loop), threads)
            own.update(kept.registers.values())
    return Kernel([loop]), own


def _threads(rows: Rows, machine: Machine) -> int:
    """Choose the size of a team: that of the largest block, if a smaller one lacks registers."""
    few = rows.team.threads
    is_large = len(rows.places) * rows.each(few) > machine.gpu.row_registers
    return machine.gpu.block_threads if is_large and rows.team.axis is Axis.BLOCK else few


def _resized(team: Loop, threads: int) -> Loop:
    """Give a team another number of threads."""
    inner = [_resized(i, threads) if isinstance(i, Loop) and i.axis is team.axis else i for i in team.body]
    return replace(team, body=inner, threads=threads)


class _Kept:
    """Registers for places of rows, and the loops rewritten to use them."""

    def __init__(self, rows: Rows, threads: int, registers: int) -> None:
        self.rows, each = rows, rows.each(threads)
        self.thread, self.k = Variable(threads, "t"), Variable(rows.extent // (rows.width * threads), "k")
        self.near = Variable(rows.width, "near")
        shape = (threads, each // rows.width, rows.width)
        self.registers = {
            place: Buffer(f"{place[0].name}_row", NdArrayType(shape, place[0].type.dtype.wide), Space.LOCAL)
            for place in rows.places[: registers // each]
        }
        self.new = {row: new for block in rows.blocks for row, new in self._block(block)}

    def loop(self, loop: Loop) -> Loop:
        """Rewrite the loops over rows within another one."""
        if loop in self.new:
            return self.new[loop]
        return replace(loop, body=[self.loop(i) if isinstance(i, Loop) else i for i in loop.body])

    def _block(self, block: Sequence[Loop]) -> Iterator[tuple[Loop, Loop]]:
        """Yield the loops of a block that access registers, and what they become: the first loads all."""
        places: dict[Loop, list[Place]] = {row: [] for row in block}
        loaded: list[Place] = []
        for place in self.registers:
            readers = self.rows.readers(block, place)
            if len(readers) > 1:
                loaded.append(place)
            for row in block if place[0].is_of_kernel else readers if len(readers) > 1 else ():
                places[row].append(place)
        for row in block:
            accesses = self._accesses(row, places[row])
            if accesses or loaded:
                yield row, self._row(row, loaded, accesses)
            loaded = []

    def _accesses(self, row: Loop, places: Sequence[Place]) -> dict[Place, Buffer]:
        """Find the accesses of a loop to places, and the registers instead."""
        every = {access: self.rows.place(row, *access) for access in (*row.reads, *row.writes)}
        return {access: self.registers[place] for access, place in every.items() if place in places}

    def _row(self, row: Loop, loaded: Sequence[Place], accesses: Mapping[Place, Buffer]) -> Loop:
        """Distribute a row in strips; the last one of each thread, which may be beyond the end, is peeled."""
        body: list[Item] = []
        if self.k.extent:
            body += unrolled((self.k,), self._strip(row, loaded, accesses, index(self.k)))
        if self.rows.extent % (self.rows.width * self.thread.extent):
            body += self._strip(row, loaded, accesses, ZERO + self.k.extent)
        return Loop(self.thread, body, axis=Axis.THREAD)

    def _strip(
        self, row: Loop, loaded: Sequence[Place], accesses: Mapping[Place, Buffer], k: Index
    ) -> list[Item]:
        """Process the elements of a row that a thread has side by side in its strip k."""
        own = (index(self.thread), k, index(self.near))
        mine = {self.rows.one: index(row.variable)}
        body: list[Item] = [
            Store(self.registers[b, at], own, _wide(Load(b, tuple(i.substitute(mine) for i in at))))
            for b, at in loaded
        ]
        change = _InRegisters(accesses, own)
        body += [change.statement(s) for s in row.statements]
        strip = k * self.thread.extent + index(self.thread)
        place, width, extent = strip * self.rows.width + index(self.near), self.rows.width, self.rows.extent
        body = rewritten(body, Substituted({row.variable: place}))
        if is_below(place, extent):
            return unrolled((self.near,), body)
        if extent % width:
            return unrolled((self.near,), body, (Bounds(place, extent, False, True),))
        within = Bounds(strip, extent // width, False, True)
        return unrolled((Variable(1),), unrolled((self.near,), body), (within,))


class _InRegisters(Rewriter):
    """Access registers in place of elements."""

    def __init__(self, registers: Mapping[Place, Buffer], own: Indices) -> None:
        super().__init__()
        self.registers, self.own = registers, own

    def statement(self, s: Statement) -> Statement:
        """Rewrite a statement, which may write an array of the team."""
        new = s.map(self)
        if not isinstance(new, (Store, Accumulate)) or not new.buffer.is_of_kernel:
            return new
        register = self.registers.get((new.buffer, new.indices))
        return replace(new, buffer=register, indices=self.own, scalar=_wide(new.scalar)) if register else new

    def _changed(self, old: Scalar) -> Scalar:
        match old:
            case Load() if register := self._register(old):
                return converted(register, old.dtype)
            case Compute(op=Cast(), operands=(Load() as load,)) if register := self._register(load):
                return converted(register, old.dtype)  # exact, as the register is wider
        return super()._changed(old)

    def _register(self, load: Load) -> Load | None:
        buffer = self.registers.get((load.buffer, load.indices))
        return Load(buffer, self.own) if buffer else None


def _wide(scalar: Scalar) -> Scalar:
    """Convert a scalar to the dtype in which registers keep its value."""
    return converted(scalar, scalar.dtype.wide)
