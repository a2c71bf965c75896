"""Parallelisation: threads share outermost loops that carry no dependence, where there is enough work."""

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
    """Mark the outermost loops that threads share."""
    if not machine.threads:
        return kernel
    return Kernel([
        replace(item, axis=Axis.PARALLEL) if isinstance(item, Loop) and _is_worth_sharing(item) else item
        for item in kernel.body
    ])  # fmt: skip


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
