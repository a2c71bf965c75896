"""Runs of columns: neighbouring threads exchange sums, so that each has four columns side by side.

The eight columns of a fragment of sums (mma.sync and wgmma alike) are those of four threads, two for each.
Of two fragments, an even thread takes its own columns of the first and those of the next thread, an odd one
those of the second:

    fragment       0 0 0 0 0 0 0 0 1 1 1 1 1 1 1 1
    thread         0 0 1 1 2 2 3 3 0 0 1 1 2 2 3 3      of sums
                   0 0 0 0 2 2 2 2 1 1 1 1 3 3 3 3      of runs

So an epilogue accesses 16 bytes of float32 at once, and four threads whole sectors of a row, of 16 bits too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.index import ZERO, Index, Variable, index, modulo, quotient
from catgrad.loops.ir.nest import Item, Loop, Write, statements
from catgrad.loops.ir.scalar import GLOBAL, Buffer, Load, converted
from catgrad.loops.passes.gpu.grids.moves import with_moves
from catgrad.loops.passes.gpu.products.asynchronous import begins_at_multiple, is_uniform
from catgrad.loops.passes.gpu.products.roles import SHORT, count
from catgrad.loops.passes.gpu.products.thread_tiles import RUN, Side, ThreadTiles, unrolled
from catgrad.types import Dtype, NdArrayType

COLUMNS = 16
"""Columns of two fragments."""


class Runs(Side):
    """The columns of a tile, of which a thread has runs, one for each pair of fragments."""

    def __init__(self, columns: Side) -> None:
        pairs, self.near = count(columns.own[:1]) // 2, Variable(RUN, "near")
        own = [(Variable(pairs, columns.name), COLUMNS), (self.near, 1)]
        threads = columns.digits[: len(columns.threads)]
        super().__init__(columns.name, columns.variables, columns.first, threads, own)
        self.lane = index(columns.threads[-1])
        first = modulo(self.lane, 2) * (COLUMNS // 2) + quotient(self.lane, 2) * RUN
        self.place = self.place.substitute({columns.threads[-1]: ZERO}) + first

    def join(
        self, tiles: ThreadTiles, sums: Buffer, rows: Sequence[Variable], dtype: Dtype
    ) -> tuple[Buffer, Item]:
        """Exchange sums between neighbouring threads, rounded to a dtype of 16 bits."""
        own, (pair, near) = (*rows, *self.own), map(index, self.own)
        runs = tiles.registers("runs", own)
        runs = replace(runs, type=NdArrayType(runs.type.shape, dtype)) if dtype in SHORT else runs
        lane = quotient(self.lane, 2) * 2 + quotient(near, 2)
        threads = [lane if each == self.lane else each for each in map(index, tiles.threads)]
        fragment = pair * 2 + modulo(self.lane, 2)
        part = Load(sums, (*threads, *map(index, rows), fragment, modulo(near, 2)))
        exchanged = unrolled([*rows, self.own[0]], [tiles.set(runs, own, converted(part, runs.type.dtype))])
        return runs, tiles.of_threads([Loop(self.near, exchanged, axis=Axis.LANES)])

    def are_side_by_side(self, items: Sequence[Item], place: Index) -> bool:
        """Prove that stored arrays have runs at multiples of as many elements, all of each or none."""
        written = [s for s in statements(items) if isinstance(s, Write) and s.buffer.space in GLOBAL]
        return all(is_uniform(each, self.near) for each in self.within(place)) and any(
            s.buffer.is_aligned and begins_at_multiple(s.buffer.flat(s.indices), self.near) for s in written
        )

    def each(self, body: list[Item], place: Index) -> list[Item]:
        """Run items for each column of the runs that there are."""
        conditions = self.within(place.substitute({self.near: ZERO}))
        return unrolled(self.own[:1], with_moves(self.near, body), conditions)
