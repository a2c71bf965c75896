"""Parallelisation: threads share the outermost loops that carry no dependence, where there is enough work."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from catgrad.loops.ir.dependence import is_parallel
from catgrad.loops.ir.nest import Axis, Item, Kernel, Loop, MatMul, may_fail, own_variables, size_hint
from catgrad.loops.machine import Machine

MIN_PARALLEL_WORK = 2**16
"""Operations of a nest that is worth sharing among threads."""

VECTOR_SPEEDUP = 8
"""Speed of matrix products relative to plain loops."""


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
    iterations = size_hint(loop.variable.extent)
    return iterations > 1 and iterations * sum(map(work, loop.body)) >= MIN_PARALLEL_WORK


def work(item: Item) -> int:
    """Estimate the operations of an item."""
    if isinstance(item, Loop):
        return size_hint(item.variable.extent) * sum(map(work, item.body))
    if isinstance(item, MatMul):
        return prod(size_hint(v.extent) for v in own_variables(item)) // VECTOR_SPEEDUP
    return 1
