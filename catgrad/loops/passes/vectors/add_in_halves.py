"""Pairwise summation of the lanes of a vector: its upper half is added to its lower one, and then a tree.

    for l < 16: sum += x[l]           for l < 8: halves[l] = x[l] + x[l + 8]
                                      sum += ((halves[0] + halves[4]) + (halves[2] + halves[6]))
                                           + ((halves[1] + halves[5]) + (halves[3] + halves[7]))

A compiler, which may not reassociate, adds up the lanes of such a sum one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeGuard

from catgrad.loops.ir.index import Index, Variable, index
from catgrad.loops.ir.nest import Accumulate, Item, Kernel, Loop, Store, Substituted, nested
from catgrad.loops.ir.scalar import Buffer, Compute, Load, Scalar, Space
from catgrad.loops.ir.steps import Lowered
from catgrad.loops.machine import Machine
from catgrad.loops.passes.vectors.lanes_of_sums import Around, with_loops
from catgrad.loops.passes.vectors.rows_of_sums import is_sum_of_floats
from catgrad.ops.arithmetic import Add
from catgrad.types import NdArrayType

LANES = 16
"""Lanes that are added up in pairs: those of partial sums."""


def add_in_halves(lowered: Lowered, machine: Machine) -> Lowered:
    """Add up vectors of 16 elements in pairs, if the machine has as many lanes."""
    if machine.vectors.lanes != LANES or not machine.vectors.keeps_sums:
        return lowered
    return lowered.map_kernels(lambda kernel: Kernel(with_loops(kernel.body, _changed)))


def _changed(loop: Loop, beside: Sequence[Item], around: Around) -> list[Item] | None:
    return _added(loop, around) if len(beside) > 1 and _adds_lanes(loop) else None


def _adds_lanes(loop: Loop) -> bool:
    """Tell whether a loop only adds up vectors in memory."""
    is_vector = loop.variable.extent == LANES and not loop.conditions
    return is_vector and all(_is_sum(item, loop.variable) for item in loop.body)


def _is_sum(item: Item, lane: Variable) -> TypeGuard[Accumulate]:
    if not is_sum_of_floats(item):
        return False
    load = item.scalar
    return isinstance(load, Load) and load.buffer.stride(load.indices, lane) == 1


def _added(loop: Loop, around: Around) -> list[Item]:
    """Return the loop over pairs, whose sums are arrays within loops over variables, and their totals."""
    half, low = LANES // 2, Variable(LANES // 2)
    own, shape = tuple(map(index, around)), (*(v.extent for v in around), half)
    low_and_high = [Substituted({loop.variable: index(low) + first}) for first in (0, half)]
    pairs, totals = list[Item](), list[Item]()
    for add in loop.body:
        assert isinstance(add, Accumulate)
        halves = Buffer("halves", NdArrayType(shape, add.scalar.dtype), Space.LOCAL)
        both = _total([lanes.scalar(add.scalar) for lanes in low_and_high])
        pairs.append(Store(halves, (*own, index(low)), both))
        every = [Load(halves, (*own, Index((), number))) for number in range(half)]
        totals.append(replace(add, scalar=_total(every)))
    return [*nested([low], pairs), *totals]


def _total(scalars: Sequence[Scalar]) -> Scalar:
    """Sum scalars as a balanced tree, which adds those of even places to those of odd ones last."""
    if len(scalars) == 1:
        return scalars[0]
    x, y = _total(scalars[::2]), _total(scalars[1::2])
    return Compute(Add(), x.dtype, (x, y))
