"""Factors of tiled products: their tiles in shared memory, and the threads that bring elements there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catgrad.dims import Size
from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.index import ZERO, Index, Variable, index, is_below
from catgrad.loops.ir.nest import Indices, Item, Loop, Store, Substituted
from catgrad.loops.ir.scalar import Bounds, Buffer, Load, Masked, Scalar, Space, number
from catgrad.loops.machine import WARP
from catgrad.loops.passes.gpu.grids.wide import WIDTH
from catgrad.loops.passes.gpu.products.asynchronous import COPIED_BYTES, copied
from catgrad.loops.passes.gpu.products.roles import count
from catgrad.loops.passes.gpu.products.thread_tiles import THREADS, Side, unflat, unrolled
from catgrad.types import NdArrayType

FETCHED_BYTES = 16
"""Bytes of neighbouring elements that a thread fetches to registers at once."""


@dataclass(frozen=True)
class Terms:
    """The variables of a sum, the number of its terms, and that of the terms of a slice.

    A slice may begin `before` the first term.
    """

    variables: Sequence[Variable]
    depth: Size
    deep: int
    before: bool = False


class Threads:
    """The threads of a block, and the variables that number them in rows, which tiles of equal ones share."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._known: dict[tuple[int, ...], list[Variable]] = {}

    def in_rows(self, *counts: int, names: Sequence[str]) -> list[Variable]:
        """Number rows of threads, and the threads of a row, or turns that each thread takes."""
        return self._known.setdefault(counts, [*map(Variable, counts, names)])


class Operand:
    """A factor of a product, and its tiles: one for each of the `stages` of a ring.

    Neighbouring threads go along the terms of one place, `by_terms`, or along the places of one term. Rows
    of a tile, which are padded, have the same direction, or the other one if it lies `across`.
    """

    def __init__(
        self,
        factor: Scalar,
        side: Side,
        terms: Terms,
        by_terms: bool,
        padding: int,
        stages: int = 1,
        across: bool = False,
        name: str = "",
        threads: Threads | None = None,
    ) -> None:
        self.factor, self.side, self.terms, self.by_terms = factor, side, terms, by_terms
        self.outer, self.inner = (side.width, terms.deep) if by_terms else (terms.deep, side.width)
        self.names = (side.name, "term") if by_terms else ("term", side.name)
        self.across, self.rows_of_terms = across, by_terms is not across
        rows, row = (self.inner, self.outer) if across else (self.outer, self.inner)
        self.name = name or {"row": "left", "column": "right"}[side.name]
        self.threads = threads or Threads(THREADS)
        self.tile = self._buffer("tile", (stages, rows, row + padding), Space.SHARED)

    def _buffer(self, name: str, shape: tuple[Size, ...], space: Space) -> Buffer:
        return Buffer(f"{self.name}_{name}", NdArrayType(shape, self.factor.dtype), space)

    def at(self, place: Index, term: Index, stage: Index = ZERO) -> Indices:
        """Return the indices of an element of a tile."""
        return (stage, place, term) if self.rows_of_terms else (stage, term, place)

    def loads(self, first: Index) -> Item:
        """Store the tile of the slice that begins at a term, neighbours by neighbouring threads."""
        strip, outer = Variable(self.inner // WIDTH, self.names[1]), Variable(self.outer, self.names[0])
        near = Variable(WIDTH, "near")
        store = self._element(index(outer), index(strip) * WIDTH + index(near), first, ZERO)
        strips = Loop(strip, [Loop(near, [store], axis=Axis.UNROLLED)], axis=Axis.THREAD)
        return Loop(outer, [strips], axis=Axis.THREAD)

    def copies(self, first: Index, stage: Index) -> Item | None:
        """Copy a tile asynchronously, as many elements at once as lie side by side; None if it is no copy.

        Neighbours of a tile that lies across are in different rows of it.
        """
        for bytes in (self.factor.dtype.itemsize,) if self.across else COPIED_BYTES:
            near = Variable(bytes // self.factor.dtype.itemsize, "near")
            if near.extent and self.inner % near.extent == 0:
                dealt = _Dealt(self, near)
                copy = copied(self._element(dealt.outer, dealt.inner, first, stage), near)
                if copy:
                    return dealt.to_threads([copy])
        return None

    def fetches(self, first: Index, stage: Index) -> tuple[Item, Item]:
        """Fetch a tile to registers, and store it from there."""
        dealt = _Dealt(self, Variable(FETCHED_BYTES // self.factor.dtype.itemsize, "near"))
        registers = self._buffer("next", dealt.shape, Space.LOCAL)
        own = Load(registers, tuple(map(index, dealt.own)))
        store = self._element(dealt.outer, dealt.inner, first, stage)
        fetch = Store(registers, own.indices, store.scalar)
        keep = Store(store.buffer, store.indices, own)
        return dealt.to_threads(unrolled([dealt.near], [fetch])), dealt.to_threads(
            unrolled([dealt.near], [keep])
        )

    def _element(self, outer: Index, inner: Index, first: Index, stage: Index) -> Store:
        """Store an element of a tile; 0, if there is none."""
        place, term = (outer, inner) if self.by_terms else (inner, outer)
        at, depth = first + term, self.terms.depth
        values = self.side.values(place) | unflat(self.terms.variables, at)
        scalar = Substituted(values).scalar(self.factor)
        is_whole = isinstance(depth, int) and depth % self.terms.deep == 0
        last = first if is_whole else at
        before, above = self.terms.before, not is_below(last, depth)
        beyond = (Bounds(last, depth, before, above),) if before or above else ()
        conditions = (*self.side.within(place), *beyond)
        if conditions:
            scalar = Masked(conditions, scalar, number(0, scalar.dtype))
        return Store(self.tile, self.at(place, term, stage), scalar)


class _Dealt:
    """The elements of a tile, dealt to the threads of a block: some neighbours for each, turn by turn.

    Turns are along rows of places where elements are copied one by one, so that a thread finds the place of
    one term in an image, and else across rows.
    """

    def __init__(self, operand: Operand, near: Variable) -> None:
        width = count([near])
        strips = operand.inner // width
        wide = operand.threads.count // operand.outer
        along = width == 1 and not operand.by_terms and wide >= WARP and strips % wide == 0
        strips = wide if along else strips
        most = min(operand.outer, operand.threads.count // strips)
        height = next(n for n in range(most, 0, -1) if operand.outer % n == 0)
        turns = operand.inner // strips if along else operand.outer // height
        self.near = near
        self.threads = operand.threads.in_rows(height, strips, names=operand.names)
        [self.turn] = operand.threads.in_rows(turns, names=["turn"])
        row, strip = map(index, self.threads)
        self.outer = row if along else index(self.turn) * height + row
        self.inner = (index(self.turn) * strips if along else ZERO) + strip * width + index(near)
        self.own = (*self.threads, self.turn, near)
        self.shape = tuple(v.extent for v in self.own)

    def to_threads(self, items: list[Item]) -> Item:
        """Run items for each thread and turn."""
        for variable in reversed(self.threads):
            items = [Loop(variable, items, axis=Axis.THREAD)]
        [loop] = unrolled([self.turn], items)
        return loop
