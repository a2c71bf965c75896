"""Tiled matrix products: blocks compute tiles of the result from tiles of both factors in shared memory.

    for each tile, a block:
        sums = 0                                       in registers, some for each thread
        for each slice of the terms:
            left_tile, right_tile = the factors        all threads load, barrier
            sums += left_tile · right_tile             outer products; barrier
        epilogue(sums)                                 each thread stores its elements

Tensor cores multiply what a ring of tiles holds, in which later slices arrive meanwhile (`ring.py`).

Factors and epilogue are any scalars, so convolutions are implicit products, and masks, casts, biases,
activations and optimisers cost no memory traffic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from math import prod

from catgrad.dims import product
from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.index import ZERO, Index, Variable, index
from catgrad.loops.ir.nest import Item, Kernel, Loop, Store, Substituted, rewritten
from catgrad.loops.ir.scalar import Bounds, Buffer, Load, Scalar, converted
from catgrad.loops.ir.windows import operand_boxes
from catgrad.loops.machine import Machine
from catgrad.loops.passes.gpu.products.operands import Operand, Terms
from catgrad.loops.passes.gpu.products.patches import (
    LARGE_PATCH,
    PADDING,
    WARP_COLUMNS,
    WARP_ROWS,
    patch_digits,
    stages_in_shared_memory,
)
from catgrad.loops.passes.gpu.products.ring import RING_BYTES, STAGES, Ring, Slices
from catgrad.loops.passes.gpu.products.roles import SHORT, MatrixProduct, count, narrowed, product_nest
from catgrad.loops.passes.gpu.products.runs import Runs
from catgrad.loops.passes.gpu.products.thread_tiles import Side, ThreadTiles, stepped
from catgrad.loops.passes.gpu.products.tilings import GROUP, Tiling, columns_of_group
from catgrad.loops.passes.gpu.products.warpgroups import either, exchange, warpgroup_product, warpgroup_store

DEPTH = 16
"""Terms that tiles in shared memory hold at once."""

TENSOR_PADDING = 16
"""Bytes between the rows of a tile of which tensor cores load 16 bytes of each of eight rows at once."""

TENSOR_FLOAT_PADDING = 8
"""Elements between the rows of a tile of which they load eight elements of each of four rows."""

MAX_UNROLLED_SUMS = 64
"""Sums of a thread that leave registers for the addresses of several slices at once."""


def tiled(kernel: Kernel, machine: Machine) -> Kernel | None:
    """Tile the matrix product of a kernel, or the transposed one if that is better for warp groups.

    None if it has none.
    """
    found = product_nest(kernel.body[0]) if len(kernel.body) == 1 else None
    if found is None:
        return None
    epilogue = _epilogue(kernel.body[0])
    tiles = [_Tiles(each, epilogue, machine) for each in (found, found.turned)]
    best = min(tiles, key=lambda each: each.disadvantages)
    if best.by_warpgroups is None and machine.gpu.warpgroups:
        best = _Tiles(found, epilogue, replace(machine, gpu=replace(machine.gpu, warpgroups=False)))
    return Kernel([best.loop()])


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


def _sides(found: MatrixProduct, machine: Machine) -> tuple[Side, Side]:
    """Divide tiles among threads: as square patches, or as the fragments of mma.sync (PTX ISA, 9.7.14)."""
    rows, columns = Tiling.of(found, machine).best_patch()
    if found.is_on_tensor_cores(machine):
        return (
            _side(found.rows, "row", [(2, 16 * rows), (8, 1)], [(rows, 16), (2, 8)]),
            _side(found.columns, "column", [(4, 8 * columns), (4, 2)], [(columns, 8), (2, 1)]),
        )
    return (
        _side(found.rows, "row", *patch_digits(WARP_ROWS, rows)),
        _side(found.columns, "column", *patch_digits(WARP_COLUMNS, columns)),
    )


class _Tiles(ThreadTiles):
    """The loops of one product."""

    def __init__(self, found: MatrixProduct, epilogue: Sequence[Item], machine: Machine) -> None:
        self.product, self.epilogue = found, epilogue
        dtype = found.reduce.scalar.dtype
        self.factor_dtype = found.factor_dtype
        self.on_tensor_cores = found.is_on_tensor_cores(machine)
        self.axis = Axis.TENSOR if self.on_tensor_cores else machine.gpu.outer_products
        self.rows, self.columns = _sides(found, machine)
        pairs = zip_longest(self.rows.threads, self.columns.threads)
        super().__init__([v for pair in pairs for v in pair if v is not None], dtype)
        depth = product(tuple(v.extent for v in found.sums))
        self.each = (*self.rows.own, *self.columns.own)
        self.has_ring = self.on_tensor_cores or self.axis is Axis.OUTER
        self.terms = Terms(found.sums, depth, self._deep())
        self.ring = Ring(Slices(depth), self.terms.deep, self._stages())
        factors = [narrowed(f, self.factor_dtype) or f for f in (found.left, found.right)]
        self.sides = self.rows, self.columns
        self.operands = list(map(self._operand, factors, self.sides))
        self.sums = self.registers("sums", self.each)
        axes = (*self.threads, *self.each)
        self.by_warpgroups = (
            warpgroup_product(self.sums, axes, factors, self.sides, self.terms)
            if machine.gpu.warpgroups and self.on_tensor_cores
            else None
        )
        self.by_boxes = (
            warpgroup_store(self.sums, axes, found.reduce, self.sides)
            if self.by_warpgroups and not epilogue
            else None
        )

    def _deep(self) -> int:
        """Choose the terms of a slice: fewer are enough between barriers if each has many multiplications."""
        if self.on_tensor_cores:
            return 2 * DEPTH if self.factor_dtype in SHORT else DEPTH
        return DEPTH if count(self.each) < LARGE_PATCH else DEPTH // 2

    def _stages(self) -> int:
        """Choose the stages of a ring: as many as shared memory holds."""
        width, bytes = self.rows.width + self.columns.width, self.factor_dtype.itemsize
        if self.on_tensor_cores:
            return min(STAGES, RING_BYTES // (width * (self.terms.deep * bytes + TENSOR_PADDING)))
        return min(STAGES, stages_in_shared_memory(width, self.terms.deep, bytes))

    @property
    def disadvantages(self) -> tuple[bool, bool]:
        """Tell whether warp groups cannot multiply it, or columns, of which a thread has many, are pixels."""
        if self.by_warpgroups is None:
            return True, False
        _, (right, _) = operand_boxes(self.by_warpgroups)
        return False, right.by_terms and bool(right.pixels)

    def _operand(self, factor: Scalar, side: Side) -> Operand:
        by_terms = self.product.is_by_terms(factor, side.variables)
        if not self.on_tensor_cores:
            stages = self.ring.stages if self.has_ring else 1
            return Operand(factor, side, self.terms, by_terms, PADDING, stages, across=by_terms)
        loads_words = by_terms or self.factor_dtype in SHORT
        padding = TENSOR_PADDING // self.factor_dtype.itemsize if loads_words else TENSOR_FLOAT_PADDING
        return Operand(factor, side, self.terms, by_terms, padding, self.ring.stages)

    def loop(self) -> Loop:
        """The loops over tiles, and what a block does for each."""
        begin = self.of_threads(self.fill(self.sums, self.each))
        through = self._through_ring() if self.has_ring else self._slices()
        if self.by_warpgroups and self.by_boxes:
            own = either(self.by_warpgroups, [*through, *self._end()], self.by_boxes)
            return self._grid([begin, own])
        through = [either(self.by_warpgroups, through)] if self.by_warpgroups else through
        return self._grid([begin, *through, *self._end()])

    def _grid(self, body: list[Item]) -> Loop:
        """Give each tile a block; where columns of tiles are many, all rows of a group of them come first."""
        batch, columns = self.product.batch, self.columns
        width = columns.width
        if not isinstance(columns.extent, int) or columns.extent <= GROUP * width:
            return self.of_block((*batch, self.rows.first, columns.first), body)
        most = columns_of_group(-(-columns.extent // width)) * width
        group, tile = Variable(columns.extent, "column_group", most), Variable(most, "column_tile", width)
        first = index(group) + index(tile)
        exists = () if columns.extent % most == 0 else (Bounds(first, columns.extent, False, True),)
        inner = self.of_block((tile,), rewritten(body, Substituted({columns.first: first})))
        return self.of_block((*batch, group, self.rows.first), [replace(inner, conditions=exists)])

    def _through_ring(self) -> list[Item]:
        """Multiply slices that arrive in a ring."""
        items = self.ring.through(self.operands, lambda term, stage: [self._multiply(stage)])
        return [*map(_rolled, items)] if count(self.each) > MAX_UNROLLED_SUMS else items

    def _slices(self) -> list[Item]:
        """Load and multiply one slice after another, without asynchronous copies."""
        slice = stepped(self.terms.depth, "slice", self.terms.deep)
        return [Loop(slice, [*(o.loads(index(slice)) for o in self.operands), self._multiply()])]

    def _multiply(self, stage: Index = ZERO) -> Item:
        """Add the product of both tiles of a stage: outer products of their columns and rows."""
        k = Variable(self.terms.deep, "k")
        factors = [
            converted(Load(o.tile, o.at(o.side.place, index(k), stage)), self.dtype) for o in self.operands
        ]
        return self.of_threads([self.add_outer_products(k, self.axis, self.sums, self.sides, factors)])

    def _end(self) -> list[Item]:
        """Compute the epilogue of each element that there is, in runs of columns that an array has so."""
        if self.on_tensor_cores and not self.by_boxes and count(self.columns.own[:1]) % 2 == 0:
            columns = Runs(self.columns)
            runs, joined = columns.join(self, self.sums, self.rows.own, self.product.reduce.buffer.type.dtype)
            stored = self._stored(runs, columns)
            if columns.are_side_by_side(stored, columns.place):
                return [joined, self.of_threads(stored)]
        return [self.of_threads(self._stored(self.sums, self.columns))]

    def _stored(self, sums: Buffer, columns: Side) -> list[Item]:
        """Compute the epilogue of a thread's sums."""
        r, sides = self.product.reduce, (self.rows, columns)
        digits = exchange(self.sides) if self.by_warpgroups and not self.by_boxes else {}
        places = [side.place.substitute(digits) for side in sides]
        values = {v: i for side, at in zip(sides, places, strict=True) for v, i in side.values(at).items()}
        own = [v for side in sides for v in side.own]
        store = Store(r.buffer, r.indices, converted(self.own(sums, own), r.buffer.type.dtype))
        body = rewritten([store, *self.epilogue], Substituted(values))
        for side, at in reversed([*zip(sides, places, strict=True)]):
            body = side.each(body, at)
        return body


def _rolled(item: Item) -> Item:
    """Keep compilers from unrolling a loop over slices."""
    if isinstance(item, Loop) and item.axis is Axis.SERIAL:
        return replace(item, axis=Axis.ROLLED)
    return item
