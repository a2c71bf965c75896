"""Tiles of a block of threads: rows and columns of a tile, each thread's own in registers, outer products."""

from __future__ import annotations

from collections.abc import Sequence

from catgrad.dims import Size, product
from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.index import ZERO, Index, Variable, index, is_below, modulo, quotient, split_below
from catgrad.loops.ir.nest import Accumulate, Item, Loop, Store
from catgrad.loops.ir.scalar import Bounds, Buffer, Compute, Load, Scalar, Space, number
from catgrad.loops.passes.gpu.products.roles import count
from catgrad.ops.arithmetic import Add, Multiply
from catgrad.types import Dtype, NdArrayType

SIDE = 16
"""Threads along each side of a block."""

THREADS = SIDE * SIDE
"""Threads of a block."""

RUN = 4
"""Rows or columns of a patch that lie side by side: elements of 16 bytes, which a thread loads at once."""

Digit = tuple[Variable, int]
"""A variable, and its weight in a number of mixed radix."""


class Side:
    """Rows or columns: those of a tile, which begins at `first`, and a thread's own among them.

    The place in a tile is a number of mixed radix: some digits count threads, some a thread's own elements.
    """

    def __init__(
        self,
        name: str,
        variables: Sequence[Variable],
        first: Variable,
        threads: Sequence[Digit],
        own: Sequence[Digit],
    ) -> None:
        self.name, self.variables, self.first = name, variables, first
        self.extent = product(tuple(v.extent for v in variables))
        self.threads, self.own = [v for v, _ in threads], [v for v, _ in own]
        self.width = count((*self.threads, *self.own))
        self.digits = [*threads, *own]
        self.place = sum((index(v) * weight for v, weight in self.digits), start=ZERO)

    @property
    def index(self) -> Index:
        """The number of a thread's own row or column."""
        return index(self.first) + self.place

    def values(self, place: Index) -> dict[Variable, Index]:
        """Compute the variables of the row or column at a place of the tile."""
        return unflat(self.variables, index(self.first) + place)

    def within(self, place: Index) -> tuple[Bounds, ...]:
        """Return the condition that there is such a row or column, unless there always is."""
        whole = isinstance(self.extent, int) and self.extent % self.width == 0
        at = index(self.first) + place
        return () if whole or is_below(at, self.extent) else (Bounds(at, self.extent, False, True),)

    def each(self, body: list[Item], place: Index) -> list[Item]:
        """Run items for each of a thread's own rows or columns that there are."""
        return unrolled(self.own, body, self.within(place))


class ThreadTiles:
    """The threads of a block, and their registers."""

    def __init__(self, threads: Sequence[Variable], dtype: Dtype) -> None:
        self.threads, self.dtype = threads, dtype
        self.team = count(threads)

    def of_threads(self, body: list[Item]) -> Loop:
        """Let each thread run items."""
        return _around(self.threads, body, Axis.THREAD)

    def of_block(self, variables: Sequence[Variable], body: list[Item]) -> Loop:
        """Give each value of variables a block."""
        return _around(variables, body, Axis.BLOCK, self.team)

    def registers(self, name: str, own: Sequence[Variable]) -> Buffer:
        """Make an array that each thread has for itself."""
        shape = tuple(v.extent for v in (*self.threads, *own))
        return Buffer(name, NdArrayType(shape, self.dtype), Space.LOCAL)

    def own(self, registers: Buffer, own: Sequence[Variable]) -> Load:
        """Return an element of a thread's registers."""
        return Load(registers, tuple(map(index, (*self.threads, *own))))

    def set(self, registers: Buffer, own: Sequence[Variable], scalar: Scalar) -> Store:
        """Assign an element of a thread's registers."""
        return Store(registers, self.own(registers, own).indices, scalar)

    def fill(self, registers: Buffer, own: Sequence[Variable], value: float = 0) -> list[Item]:
        """Assign a number to all registers of an array."""
        return unrolled(own, [self.set(registers, own, number(value, self.dtype))])

    def add_outer_products(
        self, term: Variable, axis: Axis, sums: Buffer, sides: Sequence[Side], factors: Sequence[Scalar]
    ) -> Loop:
        """Add products of a row's factor and a column's for each term.

        A loop of single iterations first loads to registers what is used more than once.
        """
        body, loaded = list[Item](), list[Scalar]()
        for side, factor, name in zip(sides, factors, ("lefts", "rights"), strict=True):
            if not axis.is_whole and count(side.own) > 1:
                register = self.registers(name, side.own)
                body += unrolled(side.own, [self.set(register, side.own, factor)])
                factor = self.own(register, side.own)
            loaded.append(factor)
        own = [v for side in sides for v in side.own]
        product = Compute(Multiply(), self.dtype, tuple(loaded))
        add = Accumulate(sums, self.own(sums, own).indices, Add(), product)
        return Loop(term, [*body, *unrolled(own, [add])], axis=axis)


def _around(variables: Sequence[Variable], body: list[Item], axis: Axis, threads: int = 1) -> Loop:
    for variable in reversed(variables):
        body = [Loop(variable, body, axis=axis, threads=threads)]
    [loop] = body
    assert isinstance(loop, Loop)
    return loop


def unrolled(
    variables: Sequence[Variable], body: list[Item], conditions: tuple[Bounds, ...] = ()
) -> list[Item]:
    """Nest items in unrolled loops; iterations of the innermost where conditions do not hold are left out."""
    needed = [v for v in variables if v.extent != 1] or list(variables[-1:] if conditions else ())
    for number_, variable in enumerate(reversed(needed)):
        within = conditions if number_ == 0 else ()
        body = [Loop(variable, body, axis=Axis.UNROLLED, conditions=within)]
    return body


def stepped(extent: Size, name: str, step: int) -> Variable:
    """Make a variable that counts by a step, or has one value if the extent is no longer."""
    return Variable(1, name) if isinstance(extent, int) and extent <= step else Variable(extent, name, step)


def unflat(variables: Sequence[Variable], place: Index) -> dict[Variable, Index]:
    """Compute the values of variables from their joint row-major number."""
    values: dict[Variable, Index] = {}
    for variable in reversed(variables[1:]):
        near, place = split_below(place, variable.extent)
        values[variable] = modulo(place, variable.extent) + near
        place = quotient(place, variable.extent)
    return values | ({variables[0]: place} if variables else {})
