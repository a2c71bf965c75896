"""Tilings of matrix products: a cost model chooses the sizes of tiles, and the parts of the sums.

A grid takes the cycles of the multiprocessor with most blocks, each of which adds up its terms:

    ⌈blocks / multiprocessors⌉ · terms · (height · width / rate + bytes / loaded_bytes + term_cycles)

for tiles of this height and width, with these bytes in a term of both factors. Large tiles load least for
each multiplication, small ones occupy more multiprocessors. In parts, a sum has more blocks of fewer terms,
but then the partial sums are written, and added up by one more launch:

    launch_cycles + addition_cycles · parts + 2 · bytes of partial sums / memory_bytes
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

from catgrad.loops.machine import GpuCosts, Machine
from catgrad.loops.passes.gpu.products.roles import MatrixProduct, count
from catgrad.loops.passes.gpu.products.thread_tiles import SIDE

TENSOR_SIDE = 32
"""Rows, and columns, of the smallest tile on tensor cores."""

GROUP = 16
"""Columns of tiles, at most, whose blocks run together, and share what the cache holds of both factors."""

Patch = tuple[int, int]
"""Rows and columns of a thread's patch, or fragments of a warp's on tensor cores."""

WIDE_PATCH = (4, 8)
"""A larger one on tensor cores, which multiply faster than memory provides operands of smaller tiles.

Those of factors in parts take longer, and so many registers that larger tiles would leave none.
"""


@dataclass(frozen=True)
class Tiling:
    """The tiled product of some matrices, of these rows, columns and terms, by its sizes alone.

    Each multiplication takes so many products of tensor cores, or has none.
    """

    matrices: int
    rows: int
    columns: int
    terms: int
    item_bytes: int
    tensor_products: int
    costs: GpuCosts

    @staticmethod
    def of(found: MatrixProduct, machine: Machine) -> Tiling:
        """Take the sizes of a product; 64 for each symbol."""
        matrices, rows, columns, terms = map(count, (found.batch, found.rows, found.columns, found.sums))
        products, costs = found.tensor_products(machine), machine.gpu.costs
        return Tiling(matrices, rows, columns, terms, found.factor_dtype.itemsize, products, costs)

    def in_parts(self, parts: int, terms: int) -> Tiling:
        """Return the tiling of the partial products, each a sum of some of the terms."""
        return replace(self, matrices=self.matrices * parts, terms=terms)

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
        return [*([WIDE_PATCH] if self.tensor_products == 1 else ()), *product(rows, columns)]

    def sides(self, patch: Patch) -> tuple[int, int]:
        """The height and width of the tiles with a patch."""
        return self.side * patch[0], self.side * patch[1]

    def blocks(self, patch: Patch) -> int:
        """Count the tiles."""
        height, width = self.sides(patch)
        return self.matrices * -(-self.rows // height) * -(-self.columns // width)

    def cycles(self, patch: Patch) -> float:
        """Estimate the time of the product."""
        (height, width), costs, products = self.sides(patch), self.costs, self.tensor_products
        rate = costs.tensor_multiplications / products if products else costs.multiplications
        loads = (height + width) * self.item_bytes / costs.loaded_bytes
        term = height * width / rate + loads + costs.term_cycles
        return -(-self.blocks(patch) // costs.multiprocessors) * self.terms * term

    def numbers_of_parts(self, waves: int) -> set[int]:
        """Find the numbers of parts with which tiles of some size fill up to so many waves of blocks."""
        room = [wave * self.costs.multiprocessors for wave in range(1, waves + 1)]
        return {blocks // self.blocks(patch) for blocks in room for patch in self.patches} - {0, 1}

    def cycles_of_adding(self, parts: int) -> float:
        """Estimate the time that partial sums cost."""
        costs, bytes = self.costs, self.bytes_of_parts(parts)
        return costs.launch_cycles + costs.addition_cycles * parts + 2 * bytes / costs.memory_bytes

    def bytes_of_parts(self, parts: int) -> int:
        """Count the bytes of partial sums."""
        return max(self.item_bytes, 4) * parts * self.matrices * self.rows * self.columns

    def best_patch(self) -> Patch:
        """Choose the patch of the fastest tiles."""
        return min(self.patches, key=self.cycles)


def columns_of_group(tiles: int) -> int:
    """Choose the columns of tiles of a group so that few blocks of the last group have no tile.

    A block of warp groups takes every so many tiles, so that the same ones might get all that are none.
    """
    return min(range(GROUP, GROUP // 2, -1), key=lambda n: -(-tiles // n) * n)
