"""Scalar expansion of sums over rows that lie apart: a partial sum for each lane, which are added up once.

    sum = 0                                  sums[0:16] = 0; sum = 0
    for j:                                   for j:
        for k < 256: sum += x[j, k]              for v < 16:
                                                     for l < 16: sums[l] += x[j, 16v + l]
                                             for l < 16: sum += sums[l]

A compiler adds up the lanes of a vector after each loop over k, which takes as long as several vectors. A sum
of many terms has a float32 for each row, and one float64 for all; then both are expanded:

    total = 0                                totals[0:16] = 0; total = 0
    for j:                                   for j:
        sum = 0                                  sums[0:16] = 0
        for k < 256: sum += x[j, k]              for v < 16:
                                                     for l < 16: sums[l] += x[j, 16v + l]
        total += sum                             for l < 16: totals[l] += sums[l]
                                             for l < 16: total += totals[l]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

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
from catgrad.loops.ir.scalar import Buffer, Load, Scalar, Space, converted, number
from catgrad.loops.ir.steps import Lowered
from catgrad.loops.machine import Machine
from catgrad.loops.passes.schedule.reductions import lanes_of
from catgrad.loops.passes.vectors.rows_of_sums import RowsOfSums, rows_of_sums
from catgrad.types import NdArrayType

Around = tuple[Variable, ...]
"""The variables of the loops around another one."""


def expand_sums(lowered: Lowered, machine: Machine) -> Lowered:
    """Keep sums over short rows in the lanes of vectors until the last row."""
    lanes = machine.vectors.lanes
    if lanes == 1 or not machine.vectors.keeps_sums:
        return lowered

    return lowered.map_kernels(lambda kernel: Kernel(_within(kernel.body, (), lanes)))


def _within(items: Sequence[Item], around: Around, lanes: int) -> list[Item]:
    result: list[Item] = []
    for item in items:
        if not isinstance(item, Loop):
            result.append(item)
        elif rows := rows_of_sums(item, items, lanes):
            result += _expanded(rows, around, lanes)
        else:
            result.append(replace(item, body=_within(item.body, (*around, item.variable), lanes)))
    return result


def _expanded(rows: RowsOfSums, around: Around, lanes: int) -> list[Item]:
    """Return the initial lanes, the loops with a sum for each of them, and the loop that adds them up."""
    whole, inside = [*rows.totals.values()] or rows.sums, (*around, rows.loop.variable)
    vector, lane, again, last = Variable(size_hint(rows.element.extent) // lanes), *map(Variable, [lanes] * 3)
    change = Substituted({rows.element: index(vector) * lanes + index(lane)})
    wide = _Lanes(lanes, {s.buffer: around if s in whole else inside for s in (*rows.sums, *whole)})
    body = nested([vector, lane], [wide.add(s, lane, change.scalar(s.scalar)) for s in rows.sums])
    if rows.totals:
        added: list[Item] = [wide.add(s, again, wide.load(part, again)) for part, s in rows.totals.items()]
        body = [*wide.begin(rows.sums), *body, *nested([again], added)]
    end = nested([last], [replace(s, scalar=wide.load(s.buffer, last)) for s in whole])
    return [*wide.begin(whole), replace(rows.loop, body=body), *end]


class _Lanes:
    """Arrays in the place of registers, with an element for each lane, within the loops around."""

    def __init__(self, lanes: int, around: Mapping[Buffer, Around]) -> None:
        shapes = {old: (*(v.extent for v in variables), lanes) for old, variables in around.items()}
        self.lanes, self.around = lanes, around
        self.arrays = {
            old: Buffer(lanes_of(old.name), NdArrayType(shape, old.type.dtype), Space.LOCAL)
            for old, shape in shapes.items()
        }

    def load(self, register: Buffer, lane: Variable) -> Load:
        """Return the element of a lane."""
        return Load(self.arrays[register], (*map(index, self.around[register]), index(lane)))

    def begin(self, sums: Sequence[Accumulate]) -> list[Item]:
        """Set the lanes of sums to 0."""
        lane = Variable(self.lanes)
        places = [self.load(s.buffer, lane) for s in sums]
        return nested([lane], [Store(x.buffer, x.indices, number(0, x.dtype)) for x in places])

    def add(self, s: Accumulate, lane: Variable, scalar: Scalar) -> Accumulate:
        """Add a scalar to the lane of a sum."""
        place = self.load(s.buffer, lane)
        return replace(s, buffer=place.buffer, indices=place.indices, scalar=converted(scalar, place.dtype))
