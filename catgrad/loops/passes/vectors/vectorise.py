"""Inner-loop vectorisation: mark innermost loops whose iterations run in the lanes of vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from catgrad.dims import divided
from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.dependence import first_writes, vector_sums
from catgrad.loops.ir.nest import Accumulate, Item, Kernel, Loop, Statement, scalars, size_hint
from catgrad.loops.ir.scalar import Buffer, Compute, Scalar
from catgrad.loops.machine import Machine
from catgrad.ops.arithmetic import Divide
from catgrad.ops.bounds import Fmod
from catgrad.ops.transcendental import Sqrt
from catgrad.types import Dtype

MIN_VECTOR_ITERATIONS = 4
"""Iterations of a loop that is worth vectorising."""

WIDEST_LANES = 16
"""Elements of the widest vectors."""

MIN_WIDE_ITERATIONS = 4 * WIDEST_LANES
"""Iterations of a loop that is worth the widest vectors."""

MIN_WIDE_ITERATIONS_WITH_REST = 64 * WIDEST_LANES
"""The same where the last iterations run one by one, or the lanes of sums are added up one by one."""

NO_FASTER = (Divide, Sqrt, Fmod)
"""Costly operations that take as long for each element in wider vectors: single instructions, and calls."""


def vectorise(kernel: Kernel, machine: Machine) -> Kernel:
    """Mark innermost loops of independent iterations as vectorised, also reductions to registers."""
    return Kernel(_marked(kernel.body, first_writes(kernel.body))) if machine.vectors.lanes > 1 else kernel


def _marked(items: Sequence[Item], first: Mapping[Buffer, Statement]) -> list[Item]:
    marked: list[Item] = []
    for item in items:
        if isinstance(item, Loop):
            extent = item.variable.extent
            long = not isinstance(extent, int) or extent >= MIN_VECTOR_ITERATIONS
            item = replace(item, body=_marked(item.body, first))
            free = long and item.axis is Axis.SERIAL and not _only_scatters(item)
            if free and vector_sums(item, first) is not None:
                item = replace(item, axis=Axis.WIDE if _gains_from_width(item) else Axis.VECTOR)
        marked.append(item)
    return marked


def _only_scatters(loop: Loop) -> bool:
    """Tell whether a loop only copies or fills elements apart, which vectors would gather and scatter.

    If it is told to vectorise such a loop, gcc compiles it for longer than all others together.
    """
    nodes = (x for s in loop.statements for scalar in scalars(s) for x in scalar.nodes())
    if any(isinstance(x, Compute) and loop.variable in x.variables for x in nodes):
        return False
    accesses = (*loop.reads, *loop.writes)
    return all(buffer.stride(indices, loop.variable) not in (-1, 0, 1) for buffer, indices in accesses)


def _gains_from_width(loop: Loop) -> bool:
    """Tell whether a long loop computes functions of many instructions, of which wider vectors need fewer.

    Elsewhere loads and stores take most of the time, and wide ones wait for what narrow ones just stored.
    Compilers count lanes by the narrowest elements: those of 16 bits or less would make vectors short.
    """
    extent, accesses = loop.variable.extent, (*loop.reads, *loop.writes)
    has_sum = any(isinstance(s, Accumulate) for s in loop.statements)
    has_rest = has_sum or divided(extent, WIDEST_LANES) is None
    least = MIN_WIDE_ITERATIONS_WITH_REST if has_rest else MIN_WIDE_ITERATIONS
    if size_hint(extent) < least or any(buffer.type.dtype.itemsize < 4 for buffer, _ in accesses):
        return False
    nodes = (x for s in loop.statements for scalar in scalars(s) for x in scalar.nodes())
    return any(_is_long(x) and loop.variable in x.variables for x in nodes)


def _is_long(x: Scalar) -> bool:
    """Tell whether a scalar is computed by many instructions."""
    is_costly = isinstance(x, Compute) and x.op.costly and not isinstance(x.op, NO_FASTER)
    return is_costly and x.dtype is Dtype.float32
