"""Scalar expansion of sums over rows that lie apart: a partial sum for each lane, which are added up once.

    sum = 0                                  sums[0:16] = 0; sum = 0
    for j:                                   for j:
        for k < 256: sum += x[j, k]              for v < 16:
                                                     for l < 16: sums[l] += x[j, 16v + l]
                                             for l < 16: sum += sums[l]

A compiler adds up the lanes of a vector after each loop over k, which takes as long as several vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeGuard

from catgrad.loops.ir.index import Variable, index
from catgrad.loops.ir.nest import (
    Accumulate,
    Item,
    Kernel,
    Loop,
    Store,
    Substituted,
    nested,
    size_hint,
)
from catgrad.loops.ir.scalar import Buffer, Load, Space, number
from catgrad.loops.ir.steps import Lowered
from catgrad.loops.machine import Machine
from catgrad.loops.passes.schedule.reductions import lanes_of
from catgrad.loops.passes.schedule.unroll import collapsed
from catgrad.ops.arithmetic import Add
from catgrad.types import NdArrayType

Around = tuple[Variable, ...]
"""The variables of the loops around another one."""

MAX_ROW = 256
"""Elements of a row whose lanes take as long to add up as a good part of it."""


def expand_sums(lowered: Lowered, machine: Machine) -> Lowered:
    """Keep sums over short rows in the lanes of vectors until the last row."""
    lanes = machine.vectors.lanes
    if lanes == 1:
        return lowered

    def expanded(loop: Loop, beside: Sequence[Item], around: Around) -> list[Item] | None:
        row = _row_of_sums(loop, lanes)
        return _expanded(loop, row, around, lanes) if row else None

    return lowered.map_kernels(lambda kernel: Kernel(with_loops(kernel.body, expanded)))


def with_loops(
    items: Sequence[Item],
    change: Callable[[Loop, Sequence[Item], Around], list[Item] | None],
    around: Around = (),
) -> list[Item]:
    """Replace loops, of those within each other the outermost, by what a function makes of them, if anything.

    It takes a loop, the items among which it is, and the variables of the loops around it.
    """
    result: list[Item] = []
    for item in items:
        if not isinstance(item, Loop):
            result.append(item)
        elif (changed := change(item, items, around)) is not None:
            result += changed
        else:
            result.append(replace(item, body=with_loops(item.body, change, (*around, item.variable))))
    return result


def _row_of_sums(rows: Loop, lanes: int) -> Loop | None:
    """Return the loop over the elements of each row, if all it does is to add to registers."""
    if len(rows.body) != 1:
        return None
    row = rows.body[0]
    while isinstance(row, Loop) and (joined := collapsed(row)):
        row = joined
    if not isinstance(row, Loop) or collapsed(replace(rows, body=[row])):
        return None
    extent = row.variable.extent
    if not isinstance(extent, int) or extent % lanes or not 2 * lanes <= extent <= MAX_ROW:
        return None
    is_plain = not rows.conditions and not row.conditions and all(map(is_sum_of_floats, row.body))
    return row if is_plain and _are_separate(row.body) and _is_contiguous(row) else None


def is_sum_of_floats(item: Item) -> TypeGuard[Accumulate]:
    """Tell whether a statement adds a float to a register."""
    if not (isinstance(item, Accumulate) and isinstance(item.op, Add)):
        return False
    return item.buffer.is_register and item.buffer.type.dtype.is_floating


def _are_separate(sums: Sequence[Item]) -> bool:
    """Tell whether each sum is of other registers, and none of them is a term."""
    read = [buffer for s in sums for buffer, _ in s.reads]
    return all(read.count(buffer) == 1 for s in sums for buffer, _ in s.writes)


def _is_contiguous(row: Loop) -> bool:
    """Tell whether vectors load the elements of a row side by side."""
    strides = {size_hint(buffer.stride(at, row.variable)) for buffer, at in row.reads}
    return strides <= {0, 1} and 1 in strides


def _expanded(rows: Loop, row: Loop, around: Around, lanes: int) -> list[Item]:
    """Return the initial lanes, the loops with a sum for each of them, and the loop that adds them up."""
    vector, lane = Variable(size_hint(row.variable.extent) // lanes), Variable(lanes)
    place = Substituted({row.variable: index(vector) * lanes + index(lane)})
    first, last, own = Variable(lanes), Variable(lanes), tuple(map(index, around))
    begins, sums, totals = list[Item](), list[Item](), list[Item]()
    for add in row.body:
        assert isinstance(add, Accumulate)
        dtype, shape = add.buffer.type.dtype, (*(v.extent for v in around), lanes)
        each = Buffer(lanes_of(add.buffer), NdArrayType(shape, dtype), Space.LOCAL)
        begins.append(Store(each, (*own, index(first)), number(0, dtype)))
        sums.append(Accumulate(each, (*own, index(lane)), Add(), place.scalar(add.scalar)))
        totals.append(replace(add, scalar=Load(each, (*own, index(last)))))
    inner = nested([vector, lane], sums)
    return [*nested([first], begins), replace(rows, body=inner), *nested([last], totals)]
