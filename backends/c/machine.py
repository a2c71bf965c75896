"""Processors that C is compiled for: vectors, threads, and matrix products by a runtime function."""

from __future__ import annotations

from dataclasses import dataclass

from catgrad.dims import Size
from catgrad.dims import product as size_of
from catgrad.loops.ir.nest import MatMul
from catgrad.loops.machine import Machine, Vectors
from catgrad.loops.passes import KERNEL_PASSES, PASSES, STRIP_MINE
from catgrad.loops.passes.schedule.strip_mine import strip_miner
from catgrad.loops.passes.schedule.unroll import unroll
from catgrad.loops.passes.simplify.bind import RegisterCosts, binder
from catgrad.ops.transcendental import Cos, Sin
from catgrad.types import Dtype

from .options import Options

LINE_BYTES = 64
"""Bytes of a line of a cache."""


@dataclass(frozen=True)
class Packing:
    """The block of its right operand that a product packs: at most so many rows and columns.

    Columns are filled up to whole panels, of this width at most. If the right operand is packed already, at
    most `strips` rows of the left are copied, where there are so many columns that it is `wide`.
    """

    rows: int = 256
    columns: int = 512
    panel: int = 32
    strips: int = 144
    wide: int = 128

    def bytes(self, product: MatMul) -> int:
        """Bound the size of the block, or of the rows, from above, whatever the symbols are."""

        def bounded(size: Size, most: int) -> int:
            return min(size, most) if isinstance(size, int) else most

        itemsize, groups = product.left.dtype.itemsize, (product.rows, product.columns, product.depth)
        height, width, depth = (size_of(tuple(v.extent for v in group)) for group in groups)
        if product.packed:
            is_narrow = isinstance(width, int) and width < self.wide
            copied = 0 if itemsize == 1 or is_narrow else bounded(height, self.strips)
            return copied * (self.rows * itemsize + LINE_BYTES)
        rows, columns = bounded(depth, self.rows), -(-bounded(width, self.columns) // self.panel) * self.panel
        if itemsize == 1:  # words of two elements at least, and a row of sums
            return (-(-rows // 2) + 1) * columns * 4
        return rows * columns * itemsize


PACKING = Packing()

# GCC masks the loads in the branches of a choice, and before 12.4 it mixes these up (PR 114375).
BIND = binder(RegisterCosts(loads_before_choices=True))

MACHINE = Machine(
    PASSES,
    (*KERNEL_PASSES, BIND),
    vectors=Vectors(lanes=16, near=(Sin, Cos)),
    threads=True,
    multiplies_matrices=True,
    multiplies_bytes=True,
    passes_rows=True,
    packing=PACKING.bytes,
)

SMALL_STRIPS = strip_miner(most=2**13, unit=4, few=16, many=2**16, columns_first=True)
"""Strips of memory that has no caches."""


def in_tiles(product: MatMul) -> int:
    """Bound the size of the lines of floats that are copied from nested axes: 4 rows and 28 columns."""
    is_nested = any(len(group) > 1 for group in (product.rows, product.columns, product.depth))
    depth, itemsize = size_of(tuple(v.extent for v in product.depth)), product.left.dtype.itemsize
    most = min(depth, PACKING.rows) if isinstance(depth, int) else PACKING.rows
    return PACKING.panel * most * itemsize if is_nested and itemsize > 1 else 0


MICROCONTROLLER = Machine(
    tuple(SMALL_STRIPS if each is STRIP_MINE else each for each in PASSES),
    (unroll, BIND),
    vectors=Vectors(lanes=16, keeps_sums=False),
    multiplies_matrices=True,
    multiplies_bytes=True,
    passes_rows=True,
    packing=in_tiles,
    overlaps_scratch=True,
    local_bytes=2**9,
)
"""A processor without vectors, threads and caches: products read their operands in place."""


def machine_of(options: Options) -> Machine:
    """Return the machine that options of the target ask for."""
    return MICROCONTROLLER if options.microcontroller else MACHINE


def companion(dtype: Dtype, is_sum: bool) -> str:
    """Name the companion register of a sum, or else of a maximum: signed sums must not overflow in C."""
    if is_sum:
        return "bits" if dtype in (Dtype.int32, Dtype.int64) else ""
    return "is_nan" if dtype.is_floating else ""
