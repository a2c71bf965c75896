"""Parallelisation: threads share the outermost loops that carry no dependence, where there is enough work."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from catgrad.dims import Size
from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.dependence import is_parallel
from catgrad.loops.ir.index import Variable
from catgrad.loops.ir.nest import (
    Access,
    Item,
    Kernel,
    Loop,
    MatMul,
    may_fail,
    own_variables,
    scalars,
    size_hint,
)
from catgrad.loops.ir.scalar import Compute, reads
from catgrad.loops.machine import Machine

MIN_PARALLEL_WORK = 2**18
"""Operations of a nest that is worth sharing among threads."""

COSTLY_WORK = 24
"""Operations in the time of a costly one, as an exponential is."""

STRIDED_WORK = 8
"""Operations in the time of a load or store that is not contiguous."""

CONTIGUOUS: tuple[Size, ...] = (0, 1)
"""Strides of elements that are next to each other, or the same."""

LOOP_WORK = 32
"""Operations in the time that it takes to begin and end a loop."""

PRODUCT_SPEEDUP = 2
"""Multiplications of a matrix product in the time of one operation of a loop."""


def parallelise(kernel: Kernel, machine: Machine) -> Kernel:
    """Mark the outermost loops that threads share, also within loops that carry a dependence."""
    return Kernel([*map(_shared, kernel.body)]) if machine.threads else kernel


def _shared(item: Item) -> Item:
    if not isinstance(item, Loop):
        return item
    if _is_worth_sharing(item):
        return replace(item, axis=Axis.PARALLEL)
    return replace(item, body=[x if _is_innermost(x) else _shared(x) for x in item.body])


def _is_innermost(item: Item) -> bool:
    """Tell whether an item is a loop for vectors rather than for threads."""
    return isinstance(item, Loop) and not any(isinstance(x, (Loop, MatMul)) for x in item.body)


def _is_worth_sharing(loop: Loop) -> bool:
    if may_fail([loop]) or not is_parallel(loop):
        return False
    return size_hint(loop.variable.extent) > 1 and work(loop) >= MIN_PARALLEL_WORK


def work(item: Item, variable: Variable | None = None) -> int:
    """Estimate the time of an item, perhaps in a loop over a variable, in operations of vectors."""
    if isinstance(item, Loop):
        return LOOP_WORK + size_hint(item.variable.extent) * sum(work(x, item.variable) for x in item.body)
    elements = prod(size_hint(v.extent) for v in own_variables(item))
    if isinstance(item, MatMul):
        return elements // PRODUCT_SPEEDUP
    nodes = (node for scalar in scalars(item) for node in scalar.nodes())
    computed = sum(COSTLY_WORK if x.op.costly else 1 for x in nodes if isinstance(x, Compute))
    contiguous = (_is_contiguous(access, variable) for access in (*item.reads, *item.writes))
    return elements * (computed + sum(1 if x else STRIDED_WORK for x in contiguous))


def _is_contiguous(access: Access, variable: Variable | None) -> bool:
    """Tell whether elements are next to each other along a variable, or the same."""
    if variable is None:
        return True
    buffer, indices = access
    is_gathered = any(variable in scalar.variables for scalar in reads(indices))
    return not is_gathered and buffer.stride(indices, variable) in CONTIGUOUS
