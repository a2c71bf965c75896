"""Scalar expansion of sums over rows that lie apart: a partial sum for each lane, which are added up once.

    sum = 0                                  sums[0:16] = 0; sum = 0
    for j:                                   for j:
        for k < 256: sum += x[j, k]              for v < 16:
                                                     for l < 16: sums[l] += x[j, 16v + l]
                                             for l < 16: sum += sums[l]

A compiler adds up the lanes of a vector after each loop over k, which takes as long as several vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from catgrad.loops.passes.schedule.unroll import collapsed
from catgrad.ops.arithmetic import Add
from catgrad.types import NdArrayType

MAX_ROW = 256
"""Elements of a row whose lanes take as long to add up as a good part of it."""


def expand_sums(lowered: Lowered, machine: Machine) -> Lowered:
    """Keep sums over short rows in the lanes of vectors until the last row."""
    lanes = machine.vectors.lanes
    if lanes == 1:
        return lowered
    return lowered.map_kernels(lambda kernel: Kernel(_within(kernel.body, (), lanes)))


def _within(items: Sequence[Item], around: tuple[Variable, ...], lanes: int) -> list[Item]:
    result: list[Item] = []
    for item in items:
        if not isinstance(item, Loop):
            result.append(item)
        elif row := _row_of_sums(item, lanes):
            result += _expanded(item, row, around, lanes)
        else:
            result.append(replace(item, body=_within(item.body, (*around, item.variable), lanes)))
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
    is_plain = not rows.conditions and not row.conditions and all(map(_is_sum, row.body))
    return row if is_plain and _are_separate(row.body) and _is_contiguous(row) else None


def _is_sum(item: Item) -> TypeGuard[Accumulate]:
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


def _expanded(rows: Loop, row: Loop, around: tuple[Variable, ...], lanes: int) -> list[Item]:
    """Return the initial lanes, the loops with a sum for each of them, and the loop that adds them up."""
    vector, lane = Variable(size_hint(row.variable.extent) // lanes), Variable(lanes)
    place = Substituted({row.variable: index(vector) * lanes + index(lane)})
    first, last, own = Variable(lanes), Variable(lanes), tuple(map(index, around))
    begins, sums, totals = list[Item](), list[Item](), list[Item]()
    for add in row.body:
        assert isinstance(add, Accumulate)
        dtype, shape = add.buffer.type.dtype, (*(v.extent for v in around), lanes)
        each = Buffer(add.buffer.name, NdArrayType(shape, dtype), Space.LOCAL)
        begins.append(Store(each, (*own, index(first)), number(0, dtype)))
        sums.append(Accumulate(each, (*own, index(lane)), Add(), place.scalar(add.scalar)))
        totals.append(replace(add, scalar=Load(each, (*own, index(last)))))
    inner = nested([vector, lane], sums)
    return [*nested([first], begins), replace(rows, body=inner), *nested([last], totals)]
