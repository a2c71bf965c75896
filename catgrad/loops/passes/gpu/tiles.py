"""Tiled matrix products: blocks compute tiles of the result from tiles of both factors in shared memory.

    for each tile, a block:
        sums = 0                                       in registers, some for each thread
        for each slice of the terms:
            left_tile, right_tile = the factors        all threads load, barrier
            sums += left_tile · right_tile             outer products, or tensor cores; barrier
        epilogue(sums)                                 each thread stores its elements

Factors and epilogue are any scalars, so convolutions are implicit products, and masks, casts, biases,
activations and optimisers cost no memory traffic.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from math import prod

from catgrad.dims import product
from catgrad.loops.ir.index import Index, Variable, index
from catgrad.loops.ir.nest import Axis, Item, Kernel, Loop, Store, Substituted, rewritten
from catgrad.loops.ir.scalar import Bounds, Buffer, Load, Masked, Scalar, Space, converted, number
from catgrad.loops.machine import Machine
from catgrad.loops.passes.gpu.products import SHORT, MatrixProduct, narrowed, product_nest
from catgrad.loops.passes.gpu.thread_tiles import SIDE, Side, ThreadTiles, stepped, unflat, unrolled
from catgrad.loops.passes.gpu.tilings import Tiling
from catgrad.loops.passes.gpu.wide import WIDTH
from catgrad.types import NdArrayType

DEPTH = 16
"""Terms that tiles in shared memory hold at once."""

PADDING = 4
"""Elements between the rows of a tile, so that they begin in different banks."""

TENSOR_PADDING = 8
"""The same for tiles that tensor cores multiply."""


def tiled(kernel: Kernel, machine: Machine) -> Kernel | None:
    """Tile the matrix product of a kernel; None if it has none."""
    found = product_nest(kernel.body[0]) if len(kernel.body) == 1 else None
    return Kernel([_Tiles(found, _epilogue(kernel.body[0]), machine).loop()]) if found else None


def _epilogue(item: Item) -> list[Item]:
    while isinstance(item, Loop):
        if not isinstance(item.body[0], Loop):
            return item.body[1:]
        item = item.body[0]
    return []


def _side(
    variables: Sequence[Variable],
    name: str,
    threads: Sequence[tuple[int, int]],
    own: Sequence[tuple[int, int]],
) -> Side:
    """Make a side from the digits of places in its tiles: numbers of values, and weights."""
    first = stepped(
        product(tuple(v.extent for v in variables)), f"{name}_tile", prod(n for n, _ in (*threads, *own))
    )
    digits = [(Variable(n, f"{name}_thread"), weight) for n, weight in threads]
    return Side(name, variables, first, digits, [(Variable(n, name), weight) for n, weight in own])


def _sides(found: MatrixProduct, on_tensor_cores: bool) -> tuple[Side, Side]:
    """Divide tiles among threads: as square patches, or as the fragments of mma.sync (PTX ISA, 9.7.14)."""
    rows, columns = Tiling.of(found, on_tensor_cores).best_patch()
    if on_tensor_cores:
        return (
            _side(found.rows, "row", [(2, 16 * rows), (8, 1)], [(rows, 16), (2, 8)]),
            _side(found.columns, "column", [(4, 8 * columns), (4, 2)], [(columns, 8), (2, 1)]),
        )
    return (
        _side(found.rows, "row", [(SIDE, rows)], [(rows, 1)]),
        _side(found.columns, "column", [(SIDE, columns)], [(columns, 1)]),
    )


class _Tiles(ThreadTiles):
    """The loops of one product."""

    def __init__(self, found: MatrixProduct, epilogue: Sequence[Item], machine: Machine) -> None:
        self.product, self.epilogue = found, epilogue
        dtype = found.reduce.scalar.dtype
        self.factor_dtype = found.factor_dtype
        self.on_tensor_cores = found.is_on_tensor_cores(machine)
        self.rows, self.columns = _sides(found, self.on_tensor_cores)
        pairs = zip_longest(self.rows.threads, self.columns.threads)
        super().__init__([v for pair in pairs for v in pair if v is not None], dtype)
        self.deep = 2 * DEPTH if self.factor_dtype in SHORT else DEPTH
        self.depth = product(tuple(v.extent for v in found.sums))
        self.slice = stepped(self.depth, "slice", self.deep)
        self.each = (*self.rows.own, *self.columns.own)
        self.tiles = [self._tile("left", self.rows), self._tile("right", self.columns)]
        self.sums = self.registers("sums", self.each)

    def _tile(self, name: str, side: Side) -> Buffer:
        padding = TENSOR_PADDING if self.on_tensor_cores else PADDING
        terms_inside = self.factor_dtype in SHORT  # two neighbouring terms are one operand of mma.sync
        shape = (side.width, self.deep + padding) if terms_inside else (self.deep, side.width + padding)
        return Buffer(f"{name}_tile", NdArrayType(shape, self.factor_dtype), Space.SHARED)

    def _at(self, place: Index, term: Index) -> tuple[Index, Index]:
        return (place, term) if self.factor_dtype in SHORT else (term, place)

    def loop(self) -> Loop:
        """The loops over tiles, and what a block does for each."""
        begin = self.of_threads(self.fill(self.sums, self.each))
        p = self.product
        loads = [
            self._load(f, side, tile)
            for f, side, tile in zip((p.left, p.right), (self.rows, self.columns), self.tiles, strict=True)
        ]
        body: list[Item] = [begin, Loop(self.slice, [*loads, self._multiply()]), self._end()]
        return self.of_block((*p.batch, self.rows.first, self.columns.first), body)

    def _load(self, factor: Scalar, side: Side, tile: Buffer) -> Item:
        """Load a tile of a factor, neighbouring elements by neighbouring threads."""
        near, deep = Variable(side.width, side.name), Variable(self.deep, "term")
        term = index(self.slice) + index(deep)
        values = side.values(index(near)) | unflat(self.product.sums, term)
        conditions = side.within(index(near))
        if not isinstance(self.depth, int) or self.depth % self.deep:
            conditions += (Bounds(term, self.depth, False, True),)
        factor = narrowed(factor, self.factor_dtype) or factor
        scalar = Substituted(values).scalar(factor)
        if conditions:
            scalar = Masked(conditions, scalar, number(0, scalar.dtype))
        along = _is_contiguous(factor, side.variables) or not _is_contiguous(factor, self.product.sums)
        outer, inner = (deep, near) if along else (near, deep)
        store = Store(tile, self._at(index(near), index(deep)), scalar)
        strip, four = Variable(inner.extent // WIDTH, inner.name), Variable(WIDTH, "near")
        change = Substituted({inner: index(strip) * WIDTH + index(four)})
        loads: Item = Loop(four, [store.map(change)], axis=Axis.UNROLLED)
        for variable in (strip, outer):
            loads = Loop(variable, [loads], axis=Axis.THREAD)
        return loads

    def _multiply(self) -> Item:
        """Add the product of both tiles: outer products of their columns and rows."""
        k, sides = Variable(self.deep, "k"), (self.rows, self.columns)
        at = [self._at(side.place, index(k)) for side in sides]
        factors = [converted(Load(tile, i), self.dtype) for tile, i in zip(self.tiles, at, strict=True)]
        body = self.add_outer_product(self.sums, sides, factors, in_registers=not self.on_tensor_cores)
        axis = Axis.TENSOR if self.on_tensor_cores else Axis.UNROLLED
        return self.of_threads([Loop(k, body, axis=axis)])

    def _end(self) -> Item:
        """Compute the epilogue of each element that there is."""
        r, sides = self.product.reduce, (self.rows, self.columns)
        values = {v: i for side in sides for v, i in side.values(side.place).items()}
        result = converted(self.own(self.sums, self.each), r.buffer.type.dtype)
        store = Store(r.buffer, r.indices, result)
        body = rewritten([store, *self.epilogue], Substituted(values))
        for side in reversed(sides):
            body = unrolled(side.own, body, side.within(side.place))
        return self.of_threads(body)


def _is_contiguous(factor: Scalar, variables: Sequence[Variable]) -> bool:
    """Tell whether neighbours along some variable lie side by side."""
    places = [load.buffer.flat(load.indices) for load in factor.loads()]
    return any(place.coefficient(v) == 1 for place in places for v in variables)
