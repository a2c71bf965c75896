"""Transposition through shared memory: tiles are loaded along the rows of one array, and stored along others.

tile[a, b] = x[column + a, row + b]      neighbouring threads have neighbouring b
barrier
y[row + p, column + q] = tile[q, p]      neighbouring threads have neighbouring q
"""

from __future__ import annotations

from collections.abc import Sequence

from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.dependence import is_parallel
from catgrad.loops.ir.index import Index, Variable, index
from catgrad.loops.ir.nest import (
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
from catgrad.loops.passes.gpu.products import count
from catgrad.loops.passes.gpu.row_reuse import always
from catgrad.loops.passes.gpu.thread_tiles import stepped
from catgrad.types import NdArrayType

TILE = 32
"""Rows and columns of a tile."""

MIN_TRANSPOSED = 2**16
"""Elements that are worth tiles."""


def transposed(kernel: Kernel) -> Kernel | None:
    """Distribute a nest that reads arrays across their rows; None if it reads none, or few elements."""
    chain, body = perfect_nest(kernel.body, is_parallel)
    stores = [item for item in body if isinstance(item, Store) and not item.buffer.is_register]
    if len(stores) < len(body) or count(chain) < MIN_TRANSPOSED:
        return None
    loads = _across(chain, stores)
    rows = {row for row, _ in loads}
    if len(rows) != 1 or min(size_hint(v.extent) for v in (*rows, chain[-1])) < TILE:
        return None
    return Kernel([_tiles(chain, rows.pop(), stores, [load for _, load in loads])])


def _across(chain: Sequence[Variable], stores: Sequence[Store]) -> list[tuple[Variable, Load]]:
    """Find loads that are not contiguous along the innermost loop, and the loop along which they are."""
    last, found = chain[-1], dict[tuple[Variable, Buffer, tuple[Index, ...]], Load]()
    written = {s.buffer.home for s in stores}
    for scalar in (scalar for s in stores for scalar in scalars(s)):
        for load in (node for node in always(scalar) if isinstance(node, Load)):
            place = load.buffer.flat(load.indices)
            row = next((v for v in chain[:-1] if place.coefficient(v) == 1), None)
            if row and place.coefficient(last) not in (0, 1) and load.buffer.home not in written:
                found.setdefault((row, load.buffer, load.indices), load)
    return [(row, load) for (row, _, _), load in found.items()]


def _tiles(chain: Sequence[Variable], row: Variable, stores: Sequence[Store], loads: Sequence[Load]) -> Loop:
    """Give each tile of rows and columns a block."""
    column = chain[-1]
    firsts = stepped(row.extent, "row_tile", TILE), stepped(column.extent, "column_tile", TILE)

    def threads(
        body: list[Item], near: Variable, far: Variable, of_row: Variable, of_column: Variable
    ) -> Item:
        """Distribute a tile, `near` neighbours to neighbouring threads."""
        places = [index(first) + index(own) for first, own in zip(firsts, (of_row, of_column), strict=True)]
        bounds = tuple(
            Bounds(place, v.extent, False, True)
            for place, v in zip(places, (row, column), strict=True)
            if not (isinstance(v.extent, int) and v.extent % TILE == 0)
        )
        body = rewritten(body, Substituted(dict(zip((row, column), places, strict=True))))
        return Loop(far, [Loop(near, body, axis=Axis.THREAD, conditions=bounds)], axis=Axis.THREAD)

    a, b, p, q = (Variable(TILE, name) for name in ("column", "row", "row", "column"))
    shape = (TILE, TILE + 1)  # rows begin in different banks
    tiles = [
        Buffer(f"{load.buffer.name}_tile", NdArrayType(shape, load.dtype), Space.SHARED) for load in loads
    ]
    copies: list[Item] = [
        Store(tile, (index(a), index(b)), load) for tile, load in zip(tiles, loads, strict=True)
    ]
    change = _Tiled(
        {(x.buffer, x.indices): t for x, t in zip(loads, tiles, strict=True)}, (index(q), index(p))
    )
    body = [
        threads(copies, b, a, b, a),
        threads(rewritten(stores, change), q, p, p, q),
    ]
    for variable in reversed((*(v for v in chain[:-1] if v is not row), *firsts)):
        body = [Loop(variable, body, axis=Axis.BLOCK, threads=BLOCK)]
    [loop] = body
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
