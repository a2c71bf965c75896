"""Tiles of pairs: a block of threads keeps rows, and goes through columns tile by tile.

A matrix with an element for each pair of a row and a column exists only as tiles: in registers, where thread
(i, j) of 16 · 16 has the rows i, i + 16, … and the columns j, j + 16, …, and in shared memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from catgrad.dims import Size
from catgrad.loops.ir.index import Index, Variable, index, is_below
from catgrad.loops.ir.nest import Accumulate, Axis, Item, Loop, Store, Substituted
from catgrad.loops.ir.scalar import Bounds, Buffer, Compute, Load, Masked, Scalar, Space, number
from catgrad.loops.passes.gpu.tiles import stepped
from catgrad.ops.arithmetic import Add, Multiply
from catgrad.types import Dtype, NdArrayType

SIDE = 16
"""Threads along each side of a block."""

THREADS = SIDE * SIDE
"""Threads of a block."""

Element = Callable[[Index, Index], Scalar]
"""The factor of a product at a place of its side and a term."""


class Side:
    """Rows or columns: those of a tile, and a thread's own among them."""

    def __init__(self, variable: Variable, width: int, name: str, thread: Variable) -> None:
        self.variable, self.width = variable, width
        self.first = stepped(variable.extent, f"{name}_tile", width)
        self.own = Variable(width // SIDE, name)
        self.place = index(thread) + index(self.own) * SIDE
        self.index = self.at(self.place)

    def at(self, place: Index) -> Index:
        """Compute the row or column at a place of the tile."""
        return index(self.first) + place

    def within(self, at: Index) -> tuple[Bounds, ...]:
        """Return the condition that there is such a row or column, unless there always is."""
        extent = self.variable.extent
        return () if isinstance(extent, int) and extent % self.width == 0 else _within(at, extent)


class Features:
    """Features of rows: a thread's own of a result, or all that a tile holds."""

    def __init__(self, variable: Variable, name: str, thread: Variable) -> None:
        assert isinstance(variable.extent, int)
        self.variable, self.extent = variable, variable.extent
        self.width = -(-self.extent // SIDE) * SIDE
        self.own = Variable(self.width // SIDE, name)
        self.place = index(thread) + index(self.own) * SIDE

    def within(self, place: Index) -> tuple[Bounds, ...]:
        """Return the condition that there is such a feature, unless there always is."""
        return _within(place, self.extent)


def _within(at: Index, extent: Size) -> tuple[Bounds, ...]:
    return () if is_below(at, extent) else (Bounds(at, extent, False, True),)


class Pairs:
    """The threads of a block, its tiles and its registers."""

    def __init__(self, rows: Variable, columns: Variable, widths: tuple[int, int]) -> None:
        self.threads = [Variable(SIDE, "row_thread"), Variable(SIDE, "column_thread")]
        self.rows = Side(rows, widths[0], rows.name, self.threads[0])
        self.columns = Side(columns, widths[1], columns.name, self.threads[1])

    def features(self, variable: Variable) -> Features:
        """Distribute the features of a result among the threads of a row."""
        return Features(variable, variable.name, self.threads[1])

    def of_threads(self, body: list[Item]) -> Loop:
        """Let each thread run items."""
        inner = Loop(self.threads[1], body, axis=Axis.THREAD)
        return Loop(self.threads[0], [inner], axis=Axis.THREAD)

    def of_block(self, batch: Sequence[Variable], body: list[Item]) -> Loop:
        """Give each tile of rows a block."""
        loop = Loop(self.rows.first, body, axis=Axis.BLOCK, threads=THREADS)
        for variable in reversed(batch):
            loop = Loop(variable, [loop], axis=Axis.BLOCK, threads=THREADS)
        return loop

    def tile(self, name: str, height: int, width: int) -> Buffer:
        """Make a tile in shared memory, whose rows begin in different banks."""
        return Buffer(name, NdArrayType((height, width + 1), Dtype.float32), Space.SHARED)

    def registers(self, name: str, *own: Variable) -> Buffer:
        """Make an array that each thread has for itself."""
        shape = tuple(v.extent for v in (*self.threads, *own))
        return Buffer(name, NdArrayType(shape, Dtype.float32), Space.LOCAL)

    def own(self, registers: Buffer, *own: Variable) -> Load:
        """Return an element of a thread's registers."""
        return Load(registers, tuple(map(index, (*self.threads, *own))))

    def set(self, registers: Buffer, own: Sequence[Variable], scalar: Scalar) -> Store:
        """Assign an element of a thread's registers."""
        return Store(registers, self.own(registers, *own).indices, scalar)

    def fill(self, registers: Buffer, own: Sequence[Variable], value: float = 0) -> list[Item]:
        """Assign a number to all registers of an array."""
        return unrolled(own, [self.set(registers, own, number(value, Dtype.float32))])

    def load(self, tile: Buffer, side: Side, features: Features, scalar: Scalar) -> Loop:
        """Load a tile, neighbouring features by neighbouring threads; beyond the array are zeros."""
        place, feature = Variable(side.width, side.variable.name), Variable(features.width, "feature")
        at = side.at(index(place))
        conditions = (*side.within(at), *features.within(index(feature)))
        scalar = Substituted({side.variable: at, features.variable: index(feature)}).scalar(scalar)
        if conditions:
            scalar = Masked(conditions, scalar, number(0, Dtype.float32))
        store = Store(tile, (index(place), index(feature)), scalar)
        return Loop(place, [Loop(feature, [store], axis=Axis.THREAD)], axis=Axis.THREAD)

    def add_products(
        self, sums: Buffer, right_side: Side | Features, depth: int, left: Element, right: Element
    ) -> Loop:
        """Add the product of two tiles to registers: outer products of their columns and rows."""
        k, own = Variable(depth, "k"), (self.rows.own, right_side.own)
        body: list[Item] = []
        factors: list[Scalar] = []
        for side, element, name in ((self.rows, left, "lefts"), (right_side, right, "rights")):
            if side.own.extent == 1:
                factors.append(element(side.place, index(k)))
                continue
            register = self.registers(name, side.own)
            body += unrolled([side.own], [self.set(register, [side.own], element(side.place, index(k)))])
            factors.append(self.own(register, side.own))
        term = Compute(Multiply(), Dtype.float32, tuple(factors))
        body += unrolled(own, [Accumulate(sums, self.own(sums, *own).indices, Add(), term)])
        return Loop(k, body)


def unrolled(
    variables: Sequence[Variable], body: list[Item], conditions: tuple[Bounds, ...] = ()
) -> list[Item]:
    """Nest items in unrolled loops; iterations of the innermost where conditions do not hold are left out."""
    for variable in reversed(variables):
        if variable.extent != 1 or conditions:
            body = [Loop(variable, body, axis=Axis.UNROLLED, conditions=conditions)]
        conditions = ()
    return body
