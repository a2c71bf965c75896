"""Two-stage sums within a block: idle threads sum parts of few long sums, then others add these up.

All sums are split before the first one is read, so that threads wait once for the parts of several.
"""

from __future__ import annotations

from collections.abc import Sequence

from catgrad.loops.ir.index import Variable
from catgrad.loops.ir.nest import Kernel, Reduce, perfect_nest
from catgrad.loops.ir.steps import Lowered, Step
from catgrad.loops.machine import LARGE_BLOCK, GpuCosts, Machine
from catgrad.loops.passes.gpu.grids.threads import iterations_alone, iterations_together
from catgrad.loops.passes.gpu.products.roles import count
from catgrad.loops.passes.gpu.products.split_products import Split, put_off
from catgrad.ops.extrema import ArgMax, ArgMin

MAX_PARTS = 32
"""Parts that a thread adds up, at most."""


def split_block_sums(lowered: Lowered, machine: Machine) -> Lowered:
    """Split sums of few elements where this is faster for the threads of one block."""
    return lowered.map(lambda steps: put_off(steps, lambda step: _in_parts(step, machine.gpu.costs)))


def _in_parts(step: Step, costs: GpuCosts) -> list[Step]:
    match perfect_nest(step.body) if isinstance(step, Kernel) else None:
        case free, [Reduce() as r] if not isinstance(r.op, ArgMax | ArgMin) and r.axes:
            split = _best(r, free, costs)
            if split:
                return split.stages(r, free)
    return [step]


def _best(r: Reduce, free: Sequence[Variable], costs: GpuCosts) -> Split | None:
    """Choose the parts of a sum with which threads have least iterations; None if it is faster whole."""
    axis = max(r.axes, key=lambda v: count([v]))
    if not isinstance(axis.extent, int):
        return None
    terms = count(r.axes)
    alone = iterations_alone(free, terms, LARGE_BLOCK)
    whole = min(alone, iterations_together(free, terms, LARGE_BLOCK, costs))
    best, least = None, costs.split_gain * whole
    for length in sorted({-(-axis.extent // parts) for parts in range(2, MAX_PARTS + 1)}):
        split = Split(axis, length, -(-axis.extent // length))
        part = Variable(split.parts, "part")
        own = iterations_alone([part, *free], length * (terms // axis.extent), LARGE_BLOCK)
        iterations = own * (1 if split.is_exact else costs.masked_part) + costs.barrier_iterations
        iterations += iterations_alone(free, split.parts, LARGE_BLOCK)
        if iterations < least:
            best, least = split, iterations
    return best
