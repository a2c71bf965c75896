"""Find the rows of which a loop only sums the elements: in a register for all, or in one for each row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeGuard

from catgrad.loops.ir.index import Variable
from catgrad.loops.ir.nest import Accumulate, Item, Loop, Store, size_hint
from catgrad.loops.ir.scalar import Buffer, Compute, Load, Scalar, is_zero
from catgrad.loops.passes.schedule.unroll import collapsed
from catgrad.ops.arithmetic import Add
from catgrad.ops.cast import Cast

MAX_ROW = 256
"""Elements of a row whose lanes take as long to add up as a good part of it."""


@dataclass(frozen=True)
class RowsOfSums:
    """A loop over rows: the elements of each, their sums, and the total to which it adds each, if any."""

    loop: Loop
    element: Variable
    sums: Sequence[Accumulate]
    totals: Mapping[Buffer, Accumulate] = field(default_factory=dict)


def rows_of_sums(loop: Loop, beside: Sequence[Item], lanes: int) -> RowsOfSums | None:
    """Find the rows of a loop, if all that it does is to sum their elements in registers."""
    inner = [item for item in loop.body if isinstance(item, Loop)]
    row = _row_of_sums(inner[0], lanes) if len(inner) == 1 and not loop.conditions else None
    if row is None:
        return None
    element, sums = row.variable, [s for s in row.body if is_sum_of_floats(s)]
    if len(loop.body) == 1:
        return None if collapsed(replace(loop, body=[row])) else RowsOfSums(loop, element, sums)
    place = loop.body.index(inner[0])
    totals = _totals(loop.body[:place], row, loop.body[place + 1 :])
    elsewhere = {buffer for item in beside if item is not loop for buffer, _ in (*item.reads, *item.writes)}
    are_private = elsewhere.isdisjoint(totals)
    return RowsOfSums(loop, element, sums, totals) if totals and are_private else None


def _row_of_sums(row: Loop, lanes: int) -> Loop | None:
    """Return the loop over the elements of a row, if it is short and adds them to registers."""
    while joined := collapsed(row):
        row = joined
    extent = row.variable.extent
    if not isinstance(extent, int) or extent % lanes or not 2 * lanes <= extent <= MAX_ROW:
        return None
    is_plain = not row.conditions and all(map(is_sum_of_floats, row.body))
    return row if is_plain and _are_separate(row.body, row.body) and _is_contiguous(row) else None


def is_sum_of_floats(item: Item) -> TypeGuard[Accumulate]:
    """Tell whether a statement adds a float to a register."""
    if not (isinstance(item, Accumulate) and isinstance(item.op, Add)):
        return False
    return item.buffer.is_register and item.buffer.type.dtype.is_floating


def _are_separate(sums: Sequence[Item], items: Sequence[Item]) -> bool:
    """Tell whether each sum is of other registers, which nothing else among items reads."""
    read = [buffer for item in items for buffer, _ in item.reads]
    return all(read.count(buffer) == 1 for s in sums for buffer, _ in s.writes)


def _is_contiguous(row: Loop) -> bool:
    """Tell whether vectors load the elements of a row side by side."""
    strides = {size_hint(buffer.stride(at, row.variable)) for buffer, at in row.reads}
    return strides <= {0, 1} and 1 in strides


def _totals(before: Sequence[Item], row: Loop, after: Sequence[Item]) -> dict[Buffer, Accumulate]:
    """Return the total of each sum of a row, if all sums begin with 0, and nothing else is done with them."""
    begun = {s.buffer for s in before if isinstance(s, Store) and is_zero(s.scalar)}
    totals = {part: s for s in after if is_sum_of_floats(s) and (part := _widened(s.scalar))}
    is_all = len(before) == len(row.body) == len(after) and _are_separate(after, [row, *after])
    return totals if is_all and begun == totals.keys() == {buffer for buffer, _ in row.writes} else {}


def _widened(scalar: Scalar) -> Buffer | None:
    """Return what a scalar has in another precision."""
    inside = scalar.operands[0] if isinstance(scalar, Compute) and isinstance(scalar.op, Cast) else None
    return inside.buffer if isinstance(inside, Load) else None
