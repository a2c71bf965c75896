"""Inner-loop vectorisation: mark innermost loops whose iterations run in the lanes of vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from catgrad.loops.ir.dependence import first_writes, vector_sums
from catgrad.loops.ir.nest import Axis, Item, Kernel, Loop, Statement
from catgrad.loops.ir.scalar import Buffer
from catgrad.loops.machine import Machine

MIN_VECTOR_ITERATIONS = 4
"""Iterations of a loop that is worth vectorising."""


def vectorise(kernel: Kernel, machine: Machine) -> Kernel:
    """Mark innermost loops of independent iterations as vectorised, also reductions to registers."""
    return Kernel(_marked(kernel.body, first_writes(kernel.body))) if machine.lanes > 1 else kernel


def _marked(items: Sequence[Item], first: Mapping[Buffer, Statement]) -> list[Item]:
    marked: list[Item] = []
    for item in items:
        if isinstance(item, Loop):
            extent = item.variable.extent
            long = not isinstance(extent, int) or extent >= MIN_VECTOR_ITERATIONS
            item = replace(item, body=_marked(item.body, first))
            if long and item.axis is Axis.SERIAL and vector_sums(item, first) is not None:
                item = replace(item, axis=Axis.VECTOR)
        marked.append(item)
    return marked
