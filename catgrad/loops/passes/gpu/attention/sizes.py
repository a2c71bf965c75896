"""Sizes of tiles of attention on tensor cores, and the tiles of columns that a tile of rows needs.

A block has a tile of rows, and goes through tiles of columns in a ring. Rows are queries and columns keys, or
the other way round for the cotangents of keys and values. Warps lie side by side along the rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from catgrad.dims import Size
from catgrad.loops.ir.index import ZERO, Index, Variable
from catgrad.loops.ir.nest import size_hint
from catgrad.loops.ir.scalar import Bounds
from catgrad.loops.ir.steps import Attend, AttentionPart
from catgrad.loops.machine import Machine
from catgrad.loops.passes.gpu.attention.masks import always_holds
from catgrad.loops.passes.gpu.products.ring import RING_BYTES, Slices
from catgrad.loops.passes.gpu.products.roles import SHORT, narrowed
from catgrad.types import Dtype

FRAGMENT_ROWS = 16
"""Rows of a fragment of mma.sync, of which a warp has one or two."""

STAGES = 2
"""Tiles of columns that a block has at once."""

FRAGMENT_BYTES = 64
"""Bytes of a row that the fragments of two products have: features are padded to a multiple."""

PADDING = 16
"""Bytes between rows of a tile, so that the eight that ldmatrix loads at once are in different banks."""

WIDTHS = (
    (128, 64, 2), (128, 32, 2), (128, 64, 1), (128, 32, 1), (64, 64, 1),
    (64, 32, 1), (32, 32, 1), (64, 16, 1), (32, 16, 1),
)  # fmt: skip
"""Rows and columns of tiles, and fragments of rows of a warp, of which the first that fit are chosen.

A warp loads each fragment of columns once for all its rows.
"""

MAX_SUMS = {1: 160, 2: 128}
"""Registers of a thread for scores and results, by the fragments of a warp, which take others themselves."""


@dataclass(frozen=True)
class Sizes:
    """The rows and columns of tiles, fragments of a warp, and features of keys and of values, padded."""

    dtype: Dtype
    rows: int
    columns: int
    fragments: int
    feature: int
    column: int

    @property
    def padding(self) -> int:
        """Elements between the rows of a tile."""
        return PADDING // self.dtype.itemsize

    def fit(self, step: Attend) -> bool:
        """Tell whether tiles are not much longer than the rows, and fit into registers and shared memory."""
        both = self.feature + self.column + 2 * self.padding
        scores, sums, row = {
            AttentionPart.OUTPUT: (1, self.column, self.feature + self.padding),
            AttentionPart.QUERIES: (2, self.feature, both),
            AttentionPart.KEYS: (2, self.feature + self.column, both),
        }[step.part]
        numbers = 2 * Dtype.float32.itemsize if step.part is AttentionPart.KEYS else 0
        ring = STAGES * self.columns * (both * self.dtype.itemsize + numbers)
        is_short = self.rows > WIDTHS[-1][0] and size_hint(sides(step)[0].extent) <= self.rows // 2
        return (
            not is_short
            and self.fragments * (scores * self.columns + sums) // 2 <= MAX_SUMS[self.fragments]
            and self.rows * row * self.dtype.itemsize + ring <= RING_BYTES
        )


def factor_dtype(step: Attend, machine: Machine) -> Dtype | None:
    """Return the dtype of the factors that tensor cores multiply; None if they do not."""
    short = (d for d in SHORT if all(narrowed(factor, d) for factor in step.operands[:4]))
    return next(short, Dtype.float32 if machine.gpu.tensor_floats else None)


def sizes(step: Attend, dtype: Dtype) -> Sizes:
    """Choose the sizes of tiles."""
    whole = FRAGMENT_BYTES // dtype.itemsize
    features = [-(-size_hint(v.extent) // whole) * whole for v in (step.feature, step.column)]
    every = (Sizes(dtype, *widths, *features) for widths in WIDTHS if widths[1] % whole == 0)
    return next(each for each in every if each.fit(step))


def sides(step: Attend) -> tuple[Variable, Variable]:
    """Return the variables of rows and of columns."""
    return (step.key, step.query) if step.part is AttentionPart.KEYS else (step.query, step.key)


def slices(step: Attend, rows: Index, sizes: Sizes) -> Slices:
    """Return the tiles of columns that a tile of rows needs: none above the diagonal or before a window."""
    of_keys, extent = step.part is AttentionPart.KEYS, sides(step)[1].extent
    reach = _reach(step, sizes)
    if not step.causal:
        return Slices(extent)
    length = extent if reach is None else reach + sizes.rows
    first = rows if of_keys else ZERO if reach is None else rows - reach
    last = rows + (sizes.rows - 1)

    def needed(at: Index) -> tuple[Bounds, ...]:
        edges = [Bounds(at, extent, False, True)] if of_keys else [Bounds(last - at, 0, True, False)]
        edges += [Bounds(at - rows, length, False, True)] if of_keys and reach is not None else []
        return tuple(each for each in edges if not always_holds(each))

    return Slices(length, first, needed, before=not of_keys and bool(reach))


def _reach(step: Attend, sizes: Sizes) -> int | None:
    """Count the columns of whole tiles from the diagonal on that a window reaches; None if it may be all."""
    if step.window is None:
        return None
    reach, extent = -(-(step.window - 1) // sizes.columns) * sizes.columns, sides(step)[1].extent
    return None if _is_all(reach + sizes.rows, extent) else reach


def _is_all(length: int, extent: Size) -> bool:
    return isinstance(extent, int) and length >= extent
