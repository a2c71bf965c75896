"""Tiled matrix products: blocks compute tiles of the result from tiles of both factors in shared memory.

    for each tile, a block:
        sum = 0                                        in registers, a patch for each thread
        for each slice of the terms:
            left_tile, right_tile = the factors        all threads load, barrier
            for k: sum += left_tile[k] ⊗ right_tile[k] outer products of registers, barrier
        epilogue(sum)                                  each thread stores its patch

Factors and epilogue are any scalars, so convolutions are implicit products, and masks, casts, biases and
activations cost no memory traffic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from catgrad.dims import Size, product
from catgrad.loops.ir.index import Index, Variable, index, is_below, modulo, quotient
from catgrad.loops.ir.nest import (
    Accumulate,
    Axis,
    Item,
    Kernel,
    Loop,
    Replaced,
    Rewriter,
    Store,
    Substituted,
    nested,
    rewritten,
)
from catgrad.loops.ir.scalar import Bounds, Buffer, Compute, Load, Masked, Scalar, Space, cast, number
from catgrad.loops.passes.gpu.products import MatrixProduct, count, product_nest
from catgrad.loops.passes.gpu.wide import WIDTH
from catgrad.ops.arithmetic import Add, Multiply
from catgrad.types import NdArrayType

SIDE = 16
"""Threads along each side of a tile."""

DEPTH = 16
"""Terms that tiles in shared memory hold at once."""

PATCHES = (1, 2, 4)
"""Elements of a thread's patch along each side."""

ENOUGH_BLOCKS = 128
"""Blocks that occupy a GPU."""

PADDING = 4
"""Elements between the rows of a tile, so that they begin in different banks."""


def tiled(kernel: Kernel) -> Kernel | None:
    """Tile the matrix product of a kernel; None if it has none."""
    found = product_nest(kernel.body[0]) if len(kernel.body) == 1 else None
    return Kernel([_Tiles(found, _epilogue(kernel.body[0])).loop()]) if found else None


def _epilogue(item: Item) -> list[Item]:
    while isinstance(item, Loop):
        if not isinstance(item.body[0], Loop):
            return item.body[1:]
        item = item.body[0]
    return []


@dataclass(frozen=True)
class _Side:
    """Rows or columns: their number, the first of a block's tile, and a thread's own among them."""

    variables: tuple[Variable, ...]
    name: str
    patch: int

    def __post_init__(self) -> None:
        extent = product(tuple(v.extent for v in self.variables))
        object.__setattr__(self, "extent", extent)
        patch = self.patch
        object.__setattr__(self, "first", stepped(extent, f"{self.name}_tile", SIDE * patch))
        object.__setattr__(self, "thread", Variable(SIDE, f"{self.name}_thread"))

    @property
    def width(self) -> int:
        """Count the rows or columns of a tile."""
        return SIDE * self.patch

    def places(self, place: Index) -> dict[Variable, Index]:
        """Compute the variables from the number of a row or column."""
        return unflat(self.variables, place)

    def within(self, place: Index) -> tuple[Bounds, ...]:
        """Return the condition that there is such a row or column, unless there always is."""
        whole = isinstance(self.extent, int) and self.extent % self.width == 0
        return () if whole or is_below(place, self.extent) else (Bounds(place, self.extent, False, True),)


class _Tiles:
    """The loops of one product."""

    def __init__(self, found: MatrixProduct, epilogue: Sequence[Item]) -> None:
        self.product, self.epilogue = found, epilogue
        patch = patches(found)
        self.rows, self.columns = _Side(found.rows, "row", patch[0]), _Side(found.columns, "column", patch[1])
        self.depth = product(tuple(v.extent for v in found.sums))
        self.slice = stepped(self.depth, "slice", DEPTH)
        dtype = found.reduce.scalar.dtype
        self.left = self._tile("left", self.rows, dtype)
        self.right = self._tile("right", self.columns, dtype)
        threads = (SIDE, SIDE)
        self.sums = Buffer("sums", NdArrayType((*threads, *patch), dtype), Space.LOCAL)
        self.factors = [
            Buffer(f"{side}s", NdArrayType((*threads, n), dtype), Space.LOCAL)
            for side, n in zip(("left", "right"), patch, strict=True)
        ]

    def _tile(self, name: str, side: _Side, dtype: object) -> Buffer:
        shape = (DEPTH, side.width + PADDING)
        return Buffer(f"{name}_tile", NdArrayType(shape, dtype), Space.SHARED)  # type: ignore[arg-type]

    def loop(self) -> Loop:
        """The loops over tiles, and what a block does for each."""
        number_of_slices = Loop(self.slice, [*self._loads(), self._multiply()])
        zero = number(0, self.sums.type.dtype)
        begin = self._of_threads(self._patch(lambda i, j: [Store(self.sums, self._own(i, j), zero)]))
        body: list[Item] = [begin, number_of_slices, self._end()]
        for variable in (self.columns.first, self.rows.first, *reversed(self.product.batch)):
            body = [Loop(variable, body, axis=Axis.BLOCK, threads=SIDE * SIDE)]
        [loop] = body
        assert isinstance(loop, Loop)
        return loop

    def _of_threads(self, body: list[Item]) -> Loop:
        inner = Loop(self.columns.thread, body, axis=Axis.THREAD)
        return Loop(self.rows.thread, [inner], axis=Axis.THREAD)

    def _own(self, *places: Variable) -> tuple[Index, ...]:
        return index(self.rows.thread), index(self.columns.thread), *map(index, places)

    def _patch(self, body: object) -> list[Item]:
        i, j = Variable(self.rows.patch, "i"), Variable(self.columns.patch, "j")
        return _unrolled([i, j], body(i, j))  # type: ignore[operator]

    def _loads(self) -> list[Item]:
        """Load the tiles of both factors, neighbouring elements by neighbouring threads."""
        p = self.product
        return [self._load(p.left, self.rows, self.left), self._load(p.right, self.columns, self.right)]

    def _load(self, factor: Scalar, side: _Side, tile: Buffer) -> Item:
        near, deep = Variable(side.width, side.name), Variable(DEPTH, "term")
        place, term = index(side.first) + index(near), index(self.slice) + index(deep)
        values = side.places(place) | unflat(self.product.sums, term)
        conditions = side.within(place)
        if not isinstance(self.depth, int) or self.depth % DEPTH:
            conditions += (Bounds(term, self.depth, False, True),)
        scalar = Substituted(values).scalar(factor)
        if conditions:
            scalar = Masked(conditions, scalar, number(0, scalar.dtype))
        along = _strides(factor, side.variables) >= _strides(factor, self.product.sums)
        outer, inner = (near, deep) if along else (deep, near)
        store = Store(tile, (index(deep), index(near)), scalar)
        strip, four = Variable(inner.extent // WIDTH, inner.name), Variable(WIDTH, "near")  # type: ignore[operator]
        change = Substituted({inner: index(strip) * WIDTH + index(four)})
        loads: Item = Loop(four, [store.map(change)], axis=Axis.UNROLLED)
        for variable in (strip, outer):
            loads = Loop(variable, [loads], axis=Axis.THREAD)
        return loads

    def _multiply(self) -> Item:
        """Add the outer products of columns and rows of the tiles."""
        k = Variable(DEPTH, "k")
        body: list[Item] = []
        for side, tile, own in zip(
            (self.rows, self.columns), (self.left, self.right), self.factors, strict=True
        ):
            i = Variable(side.patch, "i")
            at = index(side.thread) * side.patch + index(i)
            body += _unrolled([i], [Store(own, self._own(i), Load(tile, (index(k), at)))])

        def product_of(i: Variable, j: Variable) -> list[Item]:
            factors = tuple(Load(own, self._own(v)) for own, v in zip(self.factors, (i, j), strict=True))
            term = Compute(Multiply(), self.sums.type.dtype, factors)
            return [Accumulate(self.sums, self._own(i, j), Add(), term)]

        body += self._patch(product_of)
        return self._of_threads([Loop(k, body, axis=Axis.UNROLLED)])

    def _end(self) -> Item:
        """Compute the epilogue of each element of the patch that there is."""
        r = self.product.reduce

        def stored(i: Variable, j: Variable) -> list[Item]:
            places = [
                index(side.first) + index(side.thread) * side.patch + index(v)
                for side, v in zip((self.rows, self.columns), (i, j), strict=True)
            ]
            values = self.rows.places(places[0]) | self.columns.places(places[1])
            result: Scalar = Load(self.sums, self._own(i, j))
            dtype = r.buffer.type.dtype
            store = Store(r.buffer, r.indices, result if dtype is result.dtype else cast(result, dtype))
            conditions = [
                side.within(place) for side, place in zip((self.rows, self.columns), places, strict=True)
            ]
            body = rewritten([store, *self.epilogue], Substituted(values))
            return _guarded(i, j, conditions, body)

        i, j = Variable(self.rows.patch, "i"), Variable(self.columns.patch, "j")
        return self._of_threads(stored(i, j))


def patches(found: MatrixProduct) -> tuple[int, int]:
    """Choose the rows and columns of a thread's patch: many, if there are blocks enough all the same."""
    sizes = count(found.rows), count(found.columns)
    rows, columns = (max(p for p in PATCHES if p == 1 or n >= SIDE * p) for n in sizes)
    while (
        (rows, columns) != (1, 1) and blocks(found, rows, columns) < ENOUGH_BLOCKS and max(rows, columns) > 2
    ):
        rows, columns = (rows // 2, columns) if rows >= columns else (rows, columns // 2)
    return rows, columns


def blocks(found: MatrixProduct, rows: int = 2, columns: int = 2) -> int:
    """Count the tiles of a product, at these sizes of patches."""
    tiles = (-(-count(group) // (SIDE * n)) for group, n in ((found.rows, rows), (found.columns, columns)))
    return count(found.batch) * prod(tiles)


def _guarded(
    i: Variable, j: Variable, conditions: Sequence[tuple[Bounds, ...]], body: list[Item]
) -> list[Item]:
    """Nest a body in unrolled loops, whose iterations beyond the end are left out."""
    inner = Loop(j, body, axis=Axis.UNROLLED, conditions=conditions[1])
    return [Loop(i, [inner], axis=Axis.UNROLLED, conditions=conditions[0])]


def _unrolled(variables: Sequence[Variable], body: list[Item]) -> list[Item]:
    return [
        replace(item, axis=Axis.UNROLLED, body=_unrolled([], item.body)) if isinstance(item, Loop) else item
        for item in nested(variables, body)
    ]


def _strides(factor: Scalar, variables: Sequence[Variable]) -> int:
    """Tell how far apart neighbours along variables are: 1 side by side, or many."""
    places = [load.buffer.flat(load.indices) for load in factor.loads()]
    return 1 if any(place.coefficient(v) == 1 for place in places for v in variables) else 2


def stepped(extent: Size, name: str, step: int) -> Variable:
    """Make a variable that counts by a step, or has one value if the extent is no longer."""
    return Variable(1, name) if isinstance(extent, int) and extent <= step else Variable(extent, name, step)


def unflat(variables: Sequence[Variable], place: Index) -> dict[Variable, Index]:
    """Compute the values of variables from their joint row-major number."""
    values: dict[Variable, Index] = {}
    for variable in reversed(variables[1:]):
        values[variable] = modulo(place, variable.extent)
        place = quotient(place, variable.extent)
    return values | ({variables[0]: place} if variables else {})


__all__ = ["Replaced", "Rewriter", "tiled"]
