"""Tiles of pairs: a block of threads keeps rows, and goes through columns tile by tile.

A matrix with an element for each pair of a row and a column exists only as tiles: in registers, where thread
(i, j) of 16 · 16 has the rows i, i + 16, … and the columns j, j + 16, …, and in shared memory. Of a result's
features, thread j has some side by side.
"""

from __future__ import annotations

from collections.abc import Callable

from catgrad.dims import Size
from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.index import Index, Variable, index
from catgrad.loops.ir.nest import Loop, Store, Substituted
from catgrad.loops.ir.scalar import Buffer, Masked, Scalar, Space, number
from catgrad.loops.passes.gpu.products.thread_tiles import RUN, SIDE, Side, ThreadTiles, stepped
from catgrad.types import Dtype, NdArrayType

Element = Callable[[Index, Index], Scalar]
"""The factor of a product at a place of its side and a term."""


class Pairs(ThreadTiles):
    """A block of threads, the sides of its pairs, and tiles."""

    def __init__(self, rows: Variable, columns: Variable, widths: tuple[int, int]) -> None:
        super().__init__([Variable(SIDE, "row_thread"), Variable(SIDE, "column_thread")], Dtype.float32)
        self.rows = _side(rows, widths[0], self.threads[0])
        self.columns = _side(columns, widths[1], self.threads[1])

    def features(self, variable: Variable) -> Side:
        """Distribute the features of a result among the threads of a row, a run for each."""
        assert isinstance(variable.extent, int)
        run, first = padded(variable.extent) // SIDE, Variable(1, f"{variable.name}_tile")
        own = Variable(run, variable.name)
        return Side(variable.name, [variable], first, [(self.threads[1], run)], [(own, 1)])

    def tile(self, name: str, height: int, width: int) -> Buffer:
        """Make a tile in shared memory, whose rows begin in different banks, at multiples of 16 bytes."""
        return Buffer(name, NdArrayType((height, width + RUN), Dtype.float32), Space.SHARED)

    def load(self, tile: Buffer, side: Side, features: Side, scalar: Scalar) -> Loop:
        """Load a tile, neighbouring features by neighbouring threads; beyond the array are zeros."""
        place, feature = Variable(side.width, side.name), Variable(features.width, "feature")
        conditions = (*side.within(index(place)), *features.within(index(feature)))
        scalar = Substituted(side.values(index(place)) | features.values(index(feature))).scalar(scalar)
        if conditions:
            scalar = Masked(conditions, scalar, number(0, Dtype.float32))
        store = Store(tile, (index(place), index(feature)), scalar)
        return Loop(place, [Loop(feature, [store], axis=Axis.THREAD)], axis=Axis.THREAD)

    def add_products(
        self, sums: Buffer, right_side: Side, depth: Size, left: Element, right: Element
    ) -> Loop:
        """Add the product of two tiles to registers: outer products of their columns and rows."""
        k, sides = Variable(depth, "k"), (self.rows, right_side)
        factors = [element(side.place, index(k)) for side, element in zip(sides, (left, right), strict=True)]
        return self.add_outer_products(k, Axis.OUTER, sums, sides, factors)


def _side(variable: Variable, width: int, thread: Variable) -> Side:
    """Give a thread every sixteenth row or column of a tile."""
    first = stepped(variable.extent, f"{variable.name}_tile", width)
    return Side(
        variable.name, [variable], first, [(thread, 1)], [(Variable(width // SIDE, variable.name), SIDE)]
    )


def padded(width: int) -> int:
    """Round a width up to a whole number of elements for each thread."""
    return -(-width // SIDE) * SIDE
