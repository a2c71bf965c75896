"""Two-stage sums within a block: idle threads sum parts of few long sums, then others add these up.

All sums are split before the first one is read, so that threads wait once for the parts of several.
"""

from __future__ import annotations

from collections.abc import Sequence

from catgrad.loops.ir.index import Variable
from catgrad.loops.ir.nest import Kernel, Reduce, perfect_nest
from catgrad.loops.ir.steps import Lowered, Step
from catgrad.loops.machine import LARGE_BLOCK, Machine
from catgrad.loops.passes.gpu.grids.threads import iterations_alone, iterations_together
from catgrad.loops.passes.gpu.products.roles import count
from catgrad.loops.passes.gpu.products.split_products import MASKED, WORTH, Split, put_off
from catgrad.ops.extrema import ArgMax, ArgMin

BARRIER = 16
"""Iterations of a thread that take as long as to wait for all."""

MAX_PARTS = 32
"""Parts that a thread adds up, at most."""


def split_block_sums(lowered: Lowered, machine: Machine) -> Lowered:
    """Split sums of few elements where this is faster for the threads of one block."""
    return lowered.map(lambda steps: put_off(steps, _in_parts))


def _in_parts(step: Step) -> list[Step]:
    match perfect_nest(step.body) if isinstance(step, Kernel) else None:
        case free, [Reduce() as r] if not isinstance(r.op, ArgMax | ArgMin) and r.axes:
            split = _best(r, free)
            if split:
                return split.stages(r, free)
    return [step]


def _best(r: Reduce, free: Sequence[Variable]) -> Split | None:
    """Choose the parts of a sum with which threads have least iterations; None if it is faster whole."""
    axis = max(r.axes, key=lambda v: count([v]))
    if not isinstance(axis.extent, int):
        return None
    terms = count(r.axes)
    whole = min(iterations_alone(free, terms, LARGE_BLOCK), iterations_together(free, terms, LARGE_BLOCK))
    best, least = None, WORTH * whole
    for length in sorted({-(-axis.extent // parts) for parts in range(2, MAX_PARTS + 1)}):
        split = Split(axis, length, -(-axis.extent // length))
        part = Variable(split.parts, "part")
        own = iterations_alone([part, *free], length * (terms // axis.extent), LARGE_BLOCK)
        iterations = own * (1 if split.is_exact else MASKED) + BARRIER
        iterations += iterations_alone(free, split.parts, LARGE_BLOCK)
        if iterations < least:
            best, least = split, iterations
    return best
