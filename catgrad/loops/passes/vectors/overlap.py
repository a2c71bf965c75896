"""Overlapping vectors: a row that is no multiple of 4 ends in a vector that begins within the one before.

    for l < 14: y[l] = f(x[l])        for p < 2: for q < 8: y[6p + q] = f(x[6p + q])

A compiler runs the last iterations of such a row one by one, which takes longer than all others. Elements
that both vectors have are computed twice, to the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.dependence import first_writes
from catgrad.loops.ir.index import Variable, index
from catgrad.loops.ir.nest import (
    Access,
    Accumulate,
    Item,
    Kernel,
    Loop,
    Statement,
    Substituted,
    rewritten,
    scalars,
)
from catgrad.loops.ir.scalar import Buffer, Compute
from catgrad.loops.machine import Machine

LEAST_LANES = 4
"""Elements of a vector that compilers use for the end of a row."""

MIN_OPERATIONS = 4
"""Operations of an iteration that takes longer alone than in one more vector."""


def overlap(kernel: Kernel, machine: Machine) -> Kernel:
    """Cut short vectorised loops into two overlapping vectors."""
    first = first_writes(kernel.body)
    return Kernel([_overlapped(item, first, machine.vectors.lanes) for item in kernel.body])


def _overlapped(item: Item, first: Mapping[Buffer, Statement], lanes: int) -> Item:
    if not isinstance(item, Loop):
        return item
    extent = item.variable.extent
    if item.axis is not Axis.VECTOR:
        return replace(item, body=[_overlapped(each, first, lanes) for each in item.body])
    width = _vector(extent, lanes) if isinstance(extent, int) and not item.conditions else 0
    if not width or _operations(item) < MIN_OPERATIONS or not _is_repeatable(item, first):
        return item
    part, lane = Variable(2), Variable(width)
    place = index(part) * (int(extent) - width) + index(lane)
    body = rewritten(item.body, Substituted({item.variable: place}))
    return Loop(part, [replace(item, variable=lane, body=body)])


def _vector(extent: int, lanes: int) -> int:
    """Return the width of two vectors that cover a row together, 0 if it needs other ones."""
    if extent % LEAST_LANES == 0 or extent < LEAST_LANES:
        return 0
    width = 1 << (extent.bit_length() - 1)
    return width if width <= lanes else 0


def _operations(loop: Loop) -> int:
    """Count the operations of an iteration."""
    nodes = (x for s in loop.statements for scalar in scalars(s) for x in scalar.nodes())
    computed = {x.number for x in nodes if isinstance(x, Compute)}
    return len(computed) + sum(isinstance(s, Accumulate) for s in loop.statements)


def _is_repeatable(loop: Loop, first: Mapping[Buffer, Statement]) -> bool:
    """Tell whether iterations may run twice: what they read of arrays that they write, they stored before."""
    own = {id(s) for s in loop.statements}
    private = {buffer for buffer, s in first.items() if buffer.is_register and id(s) in own}
    written = {buffer.home for buffer, _ in loop.writes if buffer not in private}
    stored: set[Access] = set()
    for s in loop.statements:
        if any(access[0].home in written and access not in stored for access in s.reads):
            return False
        stored.update(s.writes)
    return True
