"""Tilings of matrix products: a cost model chooses the sizes of tiles, and the parts of the sums.

A grid takes as many waves as its blocks fill the places of all multiprocessors, and a wave the cycles of the
terms of a block, and of its last stores:

    ⌈blocks / (multiprocessors · shared)⌉ · (terms · shared · term + height · width / ended_elements)

where `shared` blocks of this height and width share a multiprocessor, two of them at a cost of `sharing`. The
cycles of a term are, of a block that loads its tiles itself, and of warp groups, which tensor maps feed and
which turn tiles of TF32:

    height · width / rate + bytes / loaded_bytes + term_cycles
    max(height · width / rate, bytes / loaded_bytes) + turned bytes / loaded_bytes + warpgroup_term_cycles

Without tensor cores, two blocks of a multiprocessor hide the term_cycles of each other. Large tiles load
least for each multiplication, small ones occupy more multiprocessors. In parts, a sum has more blocks of
fewer terms, but then the partial sums are written, and added up by one more launch:

    launch_cycles + addition_cycles · parts + 2 · bytes of partial sums / memory_bytes
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import prod

from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.index import Variable
from catgrad.loops.ir.scalar import Load, unmasked
from catgrad.loops.machine import GpuCosts, Machine
from catgrad.loops.passes.gpu.products.roles import MatrixProduct, count, narrowed
from catgrad.loops.passes.gpu.products.thread_tiles import RUN, SIDE
from catgrad.types import Dtype

TENSOR_SIDE = 32
"""Rows, and columns, of the smallest tile on tensor cores."""

FED_ROWS, FED_COLUMNS = 128, (64, 128, 192, 256)
"""Rows of a tile of warp groups, 64 for each, and the columns that it may have."""

MAX_SHARING_BYTES = 256
"""Bytes of a row of a tile of warp groups, at most, two of whose blocks share a multiprocessor."""

GROUP = 16
"""Columns of tiles, at most, whose blocks run together, and share what the cache holds of both factors."""

Patch = tuple[int, int]
"""Rows and columns of a thread's patch, or fragments of a warp's on tensor cores."""

WIDE_PATCHES = ((4, 8), (4, 6))
"""Larger ones on tensor cores, which multiply faster than memory provides operands of smaller tiles.

Those of factors in parts take longer, and so many registers that larger tiles would leave none.
"""

MAX_SIDE = 2 * RUN
"""Rows, and columns, of the largest patch of float32 in the registers of a thread: 64 sums of its 128."""

RESIDENT = 2
"""Blocks that a multiprocessor runs at once without tensor cores: one multiplies while another waits."""

MAX_WIDE_BYTES = 4
"""Bytes of an element, at most, of which a thread has so large a patch."""


@dataclass(frozen=True)
class Tiling:
    """The tiled product of some matrices, of these rows, columns and terms, by its sizes alone.

    Each multiplication takes so many products of tensor cores, or has none. Where a GPU has `warpgroups`,
    they multiply the largest tiles, after they have `turned` those of some factors.
    """

    matrices: int
    rows: int
    columns: int
    terms: int
    item_bytes: int
    tensor_products: int
    costs: GpuCosts
    warpgroups: bool = False
    turned: tuple[bool, bool] = (False, False)
    max_side: int = RUN
    """Rows, and columns, of a thread's largest patch, unless it is on tensor cores."""

    @staticmethod
    def of(found: MatrixProduct, machine: Machine) -> Tiling:
        """Take the sizes of a product; 64 for each symbol."""
        matrices, rows, columns, terms = map(count, (found.batch, found.rows, found.columns, found.sums))
        products, item_bytes = found.tensor_products(machine), found.factor_dtype.itemsize
        is_wide = machine.gpu.outer_products is Axis.OUTER and item_bytes <= MAX_WIDE_BYTES
        most = MAX_SIDE if is_wide else RUN
        sizes = Tiling(matrices, rows, columns, terms, item_bytes, products, machine.gpu.costs, max_side=most)
        if not machine.gpu.warpgroups or products == 0 or not _are_arrays(found):
            return sizes
        is_turned = found.factor_dtype is Dtype.float32 and products == 1
        left = is_turned and not found.is_by_terms(found.left, found.rows)
        right = is_turned and not found.is_by_terms(found.right, found.columns)
        return replace(sizes, warpgroups=True, turned=(left, right))

    def in_parts(self, parts: int, terms: int) -> Tiling:
        """Return the tiling of the partial products, each a sum of some of the terms."""
        return replace(self, matrices=self.matrices * parts, terms=terms)

    def without_turning(self, side: int) -> Tiling:
        """Return the tiling of the product with a factor by terms."""
        left, right = (turns and number != side for number, turns in enumerate(self.turned))
        return replace(self, turned=(left, right))

    @property
    def side(self) -> int:
        """Rows, and columns, of the smallest tile."""
        return TENSOR_SIDE if self.tensor_products else SIDE

    @property
    def patches(self) -> list[Patch]:
        """The patches to choose from, large ones first.

        One element is read from shared memory in the time of two: it is for a few rows or columns.
        """
        rows, columns = ((4, 2) if n >= 2 * self.side else (4, 2, 1) for n in (self.rows, self.columns))
        if self.tensor_products:
            return [*(WIDE_PATCHES if self.tensor_products == 1 else ()), *product(rows, columns)]
        wide = (self.max_side,) if self.max_side > RUN else ()
        return [*product((*wide, *rows), (*wide, *columns))]

    def sides(self, patch: Patch) -> tuple[int, int]:
        """The height and width of the tiles with a patch."""
        return self.side * patch[0], self.side * patch[1]

    def blocks(self, patch: Patch) -> int:
        """Count the tiles."""
        height, width = self.sides(patch)
        return self.matrices * -(-self.rows // height) * -(-self.columns // width)

    def cycles(self, patch: Patch) -> float:
        """Estimate the time of the product."""
        if not self.tensor_products:
            return self.cycles_of_outer_products(patch)
        shared, costs = self.blocks_together(patch), self.costs
        if self.by_warpgroups(patch):
            term = self.term_of_warpgroups(patch)
        else:
            term = self.term_of_threads(patch) + costs.tensor_term_cycles
        waves = -(-self.blocks(patch) // (shared * costs.multiprocessors))
        together = shared * costs.sharing if shared > 1 else 1
        return waves * (self.terms * together * term + prod(self.sides(patch)) / costs.ended_elements)

    def cycles_of_outer_products(self, patch: Patch) -> float:
        """Estimate the time of the product without tensor cores."""
        waves = -(-self.blocks(patch) // self.costs.multiprocessors)
        waits = -(-waves // RESIDENT) * self.costs.term_cycles
        return self.terms * (waves * self.term_of_threads(patch) + waits)

    def term_of_threads(self, patch: Patch) -> float:
        """Estimate the cycles of a term of a block that loads its tiles itself, without its waits."""
        (height, width), costs, products = self.sides(patch), self.costs, self.tensor_products
        rate = costs.tensor_multiplications / products if products else costs.multiplications
        loads = (height + width) * self.item_bytes / costs.loaded_bytes
        return height * width / rate + loads

    def term_of_warpgroups(self, patch: Patch) -> float:
        """Estimate those of a block of warp groups."""
        sides, costs, products = self.sides(patch), self.costs, self.tensor_products
        bytes = self.item_bytes if products == 1 else 2 * products
        loads, multiplied = sum(sides) * self.item_bytes / costs.loaded_bytes, prod(sides) * bytes
        turned = sum(side for side, turns in zip(sides, self.turned, strict=True) if turns)
        split = sum(sides) / costs.split_elements if products > 1 else 0
        before = turned * self.item_bytes / costs.loaded_bytes + split + costs.warpgroup_term_cycles
        return max(loads, multiplied / costs.warpgroup_bytes) + before

    def by_warpgroups(self, patch: Patch) -> bool:
        """Tell whether warp groups multiply the tiles."""
        height, width = self.sides(patch)
        return self.warpgroups and self.rows >= height == FED_ROWS and width in FED_COLUMNS

    def blocks_together(self, patch: Patch) -> int:
        """Count the blocks of warp groups that share a multiprocessor, or 1."""
        is_small = self.sides(patch)[1] * self.item_bytes <= MAX_SHARING_BYTES and self.tensor_products == 1
        return 2 if is_small and self.by_warpgroups(patch) else 1

    def numbers_of_parts(self, waves: int) -> set[int]:
        """Find the numbers of parts with which tiles of some size fill up to so many waves of blocks."""
        room = [wave * self.costs.multiprocessors for wave in range(1, waves + 1)]
        return {blocks // self.blocks(patch) for blocks in room for patch in self.patches} - {0, 1}

    def cycles_of_adding(self, parts: int) -> float:
        """Estimate the time that partial sums cost."""
        costs, bytes = self.costs, self.bytes_of_parts(parts)
        return costs.launch_cycles + costs.addition_cycles * parts + 2 * bytes / costs.memory_bytes

    def cycles_of_copying(self, elements: int) -> float:
        """Estimate the time of a copy of a factor."""
        return self.costs.launch_cycles + 2 * self.item_bytes * elements / self.costs.memory_bytes

    def bytes_of_parts(self, parts: int) -> int:
        """Count the bytes of partial sums."""
        return max(self.item_bytes, 4) * parts * self.matrices * self.rows * self.columns

    def best_patch(self) -> Patch:
        """Choose the patch of the fastest tiles."""
        return min(self.patches, key=self.cycles)

    @property
    def fastest(self) -> float:
        """The time of the product with these tiles."""
        return self.cycles(self.best_patch())


def columns_of_group(tiles: int) -> int:
    """Choose the columns of tiles of a group so that few blocks of the last group have no tile.

    A block of warp groups takes every so many tiles, so that the same ones might get all that are none.
    """
    return min(range(GROUP, GROUP // 2, -1), key=lambda n: -(-tiles // n) * n)


def _are_arrays(found: MatrixProduct) -> bool:
    """Tell whether both factors are elements of arrays, which tensor maps may describe."""
    for factor in (found.left, found.right):
        _, load = unmasked(narrowed(factor, found.factor_dtype) or factor)
        if not isinstance(load, Load):
            return False
        if not all(isinstance(atom, Variable) for atom, _ in load.buffer.flat(load.indices).terms):
            return False
    return True
