"""Transposition through shared memory: tiles are loaded along the rows of one array, and stored along others.

tile[a, b] = x[column + a, row + b]      neighbouring threads have neighbouring b
barrier
y[row + p, column + q] = tile[q, p]      neighbouring threads have neighbouring q

Tiles are of what is loaded across the rows that a nest stores along, or else of what is stored across them.
"""

from __future__ import annotations

from collections.abc import Sequence

from catgrad.dims import product
from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.dependence import is_parallel
from catgrad.loops.ir.index import Index, Variable, index
from catgrad.loops.ir.nest import (
    Indices,
    Item,
    Kernel,
    Loop,
    Rewriter,
    Store,
    Substituted,
    perfect_nest,
    rewritten,
    scalars,
    size_hint,
)
from catgrad.loops.ir.scalar import Bounds, Buffer, Load, Scalar, Space
from catgrad.loops.machine import BLOCK
from catgrad.loops.passes.gpu.products.roles import count
from catgrad.loops.passes.gpu.products.thread_tiles import stepped, unflat
from catgrad.loops.passes.gpu.sums.row_reuse import always
from catgrad.types import NdArrayType

TILE = 32
"""Rows and columns of a tile."""

MIN_SIDE = 16
"""Rows, and columns, that are worth tiles."""

MIN_TRANSPOSED = 2**16
"""Elements that are worth tiles."""


def transposed(kernel: Kernel) -> Kernel | None:
    """Distribute a nest that reads or writes arrays across rows; None if there are none, or few elements."""
    chain, body = perfect_nest(kernel.body, is_parallel)
    if not all(isinstance(item, Store) for item in body) or count(chain) < MIN_TRANSPOSED:
        return None
    chain, stores = _joined(chain, body)
    loads, across = _loads_across(chain, stores), _stores_across(chain, stores)
    rows = {row for row, _ in loads or across}
    if len(rows) != 1 or min(size_hint(v.extent) for v in (*rows, chain[-1])) < MIN_SIDE:
        return None
    tiles = _Tiles(chain, rows.pop())
    if loads and any(store.buffer.is_register for store in stores):
        return None
    return Kernel([tiles.of_loads(stores, loads) if loads else tiles.of_stores(stores, across)])


def _joined(chain: Sequence[Variable], body: Sequence[Item]) -> tuple[list[Variable], list[Store]]:
    """Join loops, one within the other, that go along one axis of all arrays."""
    chain = [*chain]
    for k in range(len(chain) - 1, 0, -1):
        pair = chain[k - 1 : k + 1]
        whole = Variable(product(tuple(v.extent for v in pair)), pair[0].name)
        new = rewritten(body, Substituted(unflat(pair, index(whole))))
        places = [b.flat(at) for item in new for b, at in (*item.reads, *item.writes)]
        if all(whole not in {*(p - index(whole) * p.coefficient(whole)).variables()} for p in places):
            chain[k - 1 : k + 1], body = [whole], new
    return chain, [item for item in body if isinstance(item, Store)]


def _loads_across(chain: Sequence[Variable], stores: Sequence[Store]) -> list[tuple[Variable, Load]]:
    """Find loads that are not contiguous along the innermost loop, and the loop along which they are."""
    found = dict[tuple[Variable, Buffer, Indices], Load]()
    written = {s.buffer.home for s in stores}
    for scalar in (scalar for s in stores for scalar in scalars(s)):
        for load in (node for node in always(scalar) if isinstance(node, Load)):
            row = _row(chain, load.buffer, load.indices)
            if row and load.buffer.home not in written:
                found.setdefault((row, load.buffer, load.indices), load)
    return [(row, load) for (row, _, _), load in found.items()]


def _stores_across(chain: Sequence[Variable], stores: Sequence[Store]) -> list[tuple[Variable, Store]]:
    """Find stores that are not contiguous along the innermost loop, and the loop along which they are."""
    read = {buffer.home for store in stores for buffer, _ in store.reads}
    rows = ((_row(chain, s.buffer, s.indices), s) for s in stores if s.buffer.home not in read)
    return [(row, store) for row, store in rows if row]


def _row(chain: Sequence[Variable], buffer: Buffer, indices: Indices) -> Variable | None:
    """Return the loop along which an access across the innermost one is contiguous."""
    place = buffer.flat(indices)
    if place.coefficient(chain[-1]) in (0, 1):
        return None
    return next((v for v in chain[:-1] if place.coefficient(v) == 1), None)


class _Tiles:
    """Tiles of a row of one array and of another, the last loop of a nest: a block for each."""

    def __init__(self, chain: Sequence[Variable], row: Variable) -> None:
        self.outer, self.both = [v for v in chain[:-1] if v is not row], (row, chain[-1])
        self.firsts = tuple(
            stepped(v.extent, name, TILE)
            for v, name in zip(self.both, ("row_tile", "column_tile"), strict=True)
        )

    def of_loads(self, stores: Sequence[Store], loads: Sequence[tuple[Variable, Load]]) -> Loop:
        """Load tiles along rows, then do all else along columns."""
        tiles = {(load.buffer, load.indices): self._tile(load.buffer) for _, load in loads}
        a, b, p, q = self._places()
        copies: list[Item] = [
            Store(tile, (index(a), index(b)), load)
            for tile, (_, load) in zip(tiles.values(), loads, strict=True)
        ]
        rest = rewritten(stores, _Tiled(tiles, (index(q), index(p))))
        return self._block(self._threads(copies, b, a, b, a), self._threads(rest, q, p, p, q))

    def of_stores(self, stores: Sequence[Store], across: Sequence[tuple[Variable, Store]]) -> Loop:
        """Do all else along columns, then store tiles along rows."""
        a, b, p, q = self._places()
        tiles = {store: self._tile(store.buffer) for _, store in across}
        at = index(q), index(p)
        first = [Store(tiles[s], at, s.scalar) if s in tiles else s for s in stores]
        copies: list[Item] = [
            Store(s.buffer, s.indices, Load(tile, (index(a), index(b)))) for s, tile in tiles.items()
        ]
        return self._block(self._threads(first, q, p, p, q), self._threads(copies, b, a, b, a))

    def _places(self) -> list[Variable]:
        return [Variable(TILE, name) for name in ("column", "row", "row", "column")]

    def _tile(self, buffer: Buffer) -> Buffer:
        shape = (TILE, TILE + 1)  # rows begin in different banks
        return Buffer(f"{buffer.name}_tile", NdArrayType(shape, buffer.type.dtype), Space.SHARED)

    def _threads(
        self, body: Sequence[Item], near: Variable, far: Variable, of_row: Variable, of_column: Variable
    ) -> Item:
        """Distribute a tile, `near` neighbours to neighbouring threads."""
        owns = zip(self.both, self.firsts, (of_row, of_column), strict=True)
        places = {v: index(first) + index(own) for v, first, own in owns}
        bounds = tuple(
            Bounds(place, v.extent, False, True)
            for v, place in places.items()
            if not (isinstance(v.extent, int) and v.extent % TILE == 0)
        )
        items = rewritten(body, Substituted(places))
        return Loop(far, [Loop(near, items, axis=Axis.THREAD, conditions=bounds)], axis=Axis.THREAD)

    def _block(self, *body: Item) -> Loop:
        items = [*body]
        for variable in reversed((*self.outer, *self.firsts)):
            items = [Loop(variable, items, axis=Axis.BLOCK, threads=BLOCK)]
        [loop] = items
        assert isinstance(loop, Loop)
        return loop


class _Tiled(Rewriter):
    """Load elements from tiles."""

    def __init__(self, tiles: dict[tuple[Buffer, tuple[Index, ...]], Buffer], at: tuple[Index, ...]) -> None:
        super().__init__()
        self.tiles, self.at = tiles, at

    def _changed(self, old: Scalar) -> Scalar:
        tile = self.tiles.get((old.buffer, old.indices)) if isinstance(old, Load) else None
        return Load(tile, self.at) if tile else super()._changed(old)
