"""Tiles of attention on tensor cores: their sizes, and the slices of columns that a tile of rows needs.

Warps lie side by side along the rows. Each has sixteen, and goes through all columns: a thread has parts of two
rows, those of a lane of mma.sync, and three neighbours have the other parts.
"""

from __future__ import annotations

from dataclasses import dataclass

from catgrad.dims import Size
from catgrad.loops.ir.index import ZERO, Index, Variable
from catgrad.loops.ir.nest import size_hint
from catgrad.loops.ir.scalar import Bounds
from catgrad.loops.ir.steps import Attend, AttentionPart
from catgrad.loops.machine import Machine
from catgrad.loops.passes.gpu.products import SHORT, narrowed
from catgrad.loops.passes.gpu.ring import RING_BYTES, Slices
from catgrad.types import Dtype

ROWS = 16
"""Rows of a warp."""

LANES = 4
"""Threads that have a row."""

STAGES = 2
"""Tiles of columns that a block has at once."""

PADDING = 16
"""Bytes between rows of a tile, so that eight rows, of which 16 bytes are loaded at once, lie in different banks."""

SIZES = ((128, 64), (64, 64), (128, 32), (64, 32), (32, 32), (64, 16), (32, 16))
"""Rows and columns of tiles, of which the first that fit are chosen."""

MAX_SUMS = 160
"""Registers of a thread for scores and results, with room for fragments and addresses."""


@dataclass(frozen=True)
class Sizes:
    """The sizes of tiles, and the numbers of features, padded to whole slices of terms."""

    dtype: Dtype
    rows: int
    columns: int
    feature: int
    column: int

    @property
    def padding(self) -> int:
        """Elements between rows."""
        return PADDING // self.dtype.itemsize


def factor_dtype(step: Attend, machine: Machine) -> Dtype | None:
    """Return the dtype of the factors that tensor cores multiply; None if they do not."""
    matrices = step.operands[:4]
    short = (d for d in SHORT if all(narrowed(factor, d) for factor in matrices))
    return next(short, Dtype.float32 if machine.tensor_floats else None)


def sizes(step: Attend, dtype: Dtype) -> Sizes:
    """Choose the sizes of tiles: large ones, if registers and shared memory suffice."""
    slice = 64 // dtype.itemsize
    features = [-(-size_hint(v.extent) // slice) * slice for v in (step.feature, step.column)]
    every = (Sizes(dtype, rows, columns, *features) for rows, columns in SIZES if columns % slice == 0)
    return next(each for each in every if _fits(step, each))


def _fits(step: Attend, sizes: Sizes) -> bool:
    """Tell whether tiles are no longer than the rows, and fit into registers and shared memory."""
    both = sizes.feature + sizes.column
    scores, sums, row = {
        AttentionPart.OUTPUT: (1, sizes.column, sizes.feature + sizes.padding),
        AttentionPart.QUERIES: (2, sizes.feature, both + 2 * sizes.padding),
        AttentionPart.KEYS: (2, both, both + 2 * sizes.padding),
    }[step.part]
    columns = STAGES * sizes.columns * (both + 2 * sizes.padding + 2)
    is_short = sizes.rows > SIZES[-1][0] and size_hint(sides(step)[0].extent) <= sizes.rows // 2
    return (
        not is_short
        and (scores * sizes.columns + sums) // 2 <= MAX_SUMS
        and (sizes.rows * row + columns) * sizes.dtype.itemsize <= RING_BYTES
    )


def sides(step: Attend) -> tuple[Variable, Variable]:
    """Return the variables of rows, of which a block has a tile, and of columns, which it goes through."""
    return (step.key, step.query) if step.part is AttentionPart.KEYS else (step.query, step.key)


def slices(step: Attend, rows: Index, sizes: Sizes) -> Slices:
    """Return the columns that a tile of rows needs: none above the diagonal, and few for a window."""
    of_keys, extent = step.part is AttentionPart.KEYS, sides(step)[1].extent
    around = _around_diagonal(step, sizes)
    if around is not None:
        length, before = around + sizes.rows, not of_keys and around > 0
        needed = (lambda at: _below(at, extent)) if of_keys else (lambda at: ())
        return Slices(length, rows if of_keys else rows - around, needed, before)
    if not step.causal:
        return Slices(extent)
    if of_keys:
        return Slices(extent, rows, lambda at: _below(at, extent))
    return Slices(extent, ZERO, lambda at: (Bounds(rows + (sizes.rows - 1) - at, 0, True, False),))


def _around_diagonal(step: Attend, sizes: Sizes) -> int | None:
    """Count the columns on one side of the diagonal that a window reaches; None if that may be all."""
    if step.window is None:
        return None
    reached, extent = -(-(step.window - 1) // sizes.columns) * sizes.columns, sides(step)[1].extent
    return None if isinstance(extent, int) and reached + sizes.rows >= extent else reached


def _below(at: Index, extent: Size) -> tuple[Bounds, ...]:
    return (Bounds(at, extent, False, True),)
