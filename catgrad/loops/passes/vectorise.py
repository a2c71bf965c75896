"""Inner-loop vectorisation: mark innermost loops whose iterations run in the lanes of vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from catgrad.loops.ir.dependence import first_writes, vector_sums
from catgrad.loops.ir.nest import (
    Accumulate,
    Axis,
    Item,
    Kernel,
    Loop,
    Statement,
    Store,
    size_hint,
    statements,
)
from catgrad.loops.ir.scalar import Buffer, Compute
from catgrad.loops.machine import Machine
from catgrad.ops.arithmetic import Divide
from catgrad.ops.transcendental import Sqrt

MIN_VECTOR_ITERATIONS = 4
"""Iterations of a loop that is worth vectorising."""

WIDEST = 16
"""Elements of the widest vectors."""

MIN_WIDE, MIN_WIDE_WITH_REST = 4 * WIDEST, 64 * WIDEST
"""Iterations of a loop that is worth the widest vectors, which wait for what narrower ones have just stored.

The second is of loops whose last iterations fill no such vector, and run one by one.
"""

INSTRUCTIONS = (Divide, Sqrt)
"""Costly operations that are one instruction, which takes twice as long for vectors of twice the width."""


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
                item = replace(item, axis=Axis.WIDE if _is_costly(item) else Axis.VECTOR)
        marked.append(item)
    return marked


def _is_costly(loop: Loop) -> bool:
    """Tell whether a long loop computes functions of many instructions, of which wider vectors need fewer.

    Elsewhere loads and stores take most of the time, and compilers choose vectors by what these like.
    """
    variable, extent = loop.variable, loop.variable.extent
    fills_all = isinstance(extent, int) and extent % WIDEST == 0
    if size_hint(extent) < (MIN_WIDE if fills_all else MIN_WIDE_WITH_REST):
        return False
    scalars = [s.scalar for s in statements(loop.body) if isinstance(s, (Accumulate, Store))]
    every = (x for scalar in scalars for x in scalar.nodes() if isinstance(x, Compute))
    return any(x.op.costly and not isinstance(x.op, INSTRUCTIONS) and variable in x.variables for x in every)
