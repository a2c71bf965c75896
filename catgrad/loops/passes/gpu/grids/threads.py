"""Assignment of loops to the levels of a GPU: grid, blocks or warps as teams, and the threads of a team.

A nest of many independent iterations gets a thread for each; one with long reductions or loops within its
rows, a team of threads for each row. Loops that carry a dependence run in each thread alike, and what one
thread suffices for, in the first of a team.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from catgrad.dims import product
from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.dependence import is_parallel
from catgrad.loops.ir.index import Variable
from catgrad.loops.ir.nest import (
    Accumulate,
    Combine,
    Item,
    Kernel,
    Loop,
    Reduce,
    Store,
    bound_variables,
    perfect_nest,
    size_hint,
    statements,
)
from catgrad.loops.ir.scalar import Buffer, Load, Space, converted, number
from catgrad.loops.machine import BLOCK, WARP, GpuCosts, Machine
from catgrad.loops.passes.gpu.grids.wide import MIN_ELEMENTS, MIN_SUMS, widened
from catgrad.loops.passes.gpu.products.roles import count
from catgrad.loops.passes.gpu.sums.scans import prefix_sum, scanned
from catgrad.loops.passes.gpu.sums.serial import one_thread, serial
from catgrad.loops.passes.schedule.reductions import accumulator, index_by_reductions
from catgrad.loops.passes.schedule.unroll import collapsed
from catgrad.ops.extrema import ArgMax, ArgMin
from catgrad.types import NdArrayType

MIN_SPAN = 8
"""Iterations within a row that are worth a team."""

MAX_WARP_SPAN = 1024
"""Iterations within a row that a warp runs through."""


def with_threads(kernel: Kernel, machine: Machine) -> Kernel:
    """Distribute the loops of a kernel over the threads of a grid."""
    first = kernel.body[0]
    if isinstance(first, Loop) and first.axis.is_concurrent:
        return kernel
    chain, body = perfect_nest(kernel.body, is_parallel)
    if not chain:
        alone = [Variable(1, "team")]
        return Kernel([_team(alone, Axis.BLOCK, kernel.body, span(kernel.body), machine)])
    rows, width = count(chain), span(body)
    is_busy = rows >= machine.gpu.costs.busy_rows
    if width < MIN_SPAN or (is_busy and _is_coalesced(chain, body, width)):
        grid = marked(chain, serial(body), Axis.GRID, BLOCK)
        few = MIN_ELEMENTS if width == 1 else MIN_SUMS
        return Kernel([widened(grid) if rows >= few else grid])
    is_short = width <= MAX_WARP_SPAN and rows >= BLOCK // WARP
    axis = Axis.WARP if is_short else Axis.BLOCK
    return Kernel([_team(chain, axis, body, width if rows < BLOCK else 0, machine)])


def _is_coalesced(chain: Sequence[Variable], body: Sequence[Item], width: int) -> bool:
    """Tell whether threads that run through a row each access neighbouring elements, or the rows are short.

    An access that is the same all along the row, or in neighbouring rows, has no say: it costs little.
    """
    if width <= WARP:
        return True
    inner, last = bound_variables(body), chain[-1]
    every = (access for item in body for access in (*item.reads, *item.writes))
    places = [(place, {*place.variables()}) for place in (buffer.flat(indices) for buffer, indices in every)]
    moving = [place for place, over in places if last in over and not inner.isdisjoint(over)]
    side_by_side = [place for place in moving if place.coefficient(last) == 1]
    return not moving or 2 * len(side_by_side) > len(moving)


def _team(chain: Sequence[Variable], axis: Axis, body: Sequence[Item], alone: int, machine: Machine) -> Loop:
    """Give each value of variables a team; one that works `alone` on much is large."""
    gpu = machine.gpu
    large = gpu.block_threads if alone >= gpu.costs.busy_rows else BLOCK
    threads = WARP if axis is Axis.WARP else large
    return marked(chain, distributed(body, threads, gpu.costs), axis, threads)


def marked(chain: Sequence[Variable], body: list[Item], axis: Axis, threads: int = 1) -> Loop:
    """Make a perfect nest of loops of one axis, contiguous ones collapsed."""
    *outer, last = chain
    loop = Loop(last, body, axis=axis, threads=threads)
    for variable in reversed(outer):
        around = Loop(variable, [loop], axis=axis, threads=threads)
        loop = replace(collapsed(around) or around, axis=axis, threads=threads)
    return loop


def distributed(items: Sequence[Item], threads: int, costs: GpuCosts) -> list[Item]:
    """Distribute items, which run one after the other, among the threads of a team."""
    return [new for item in items for new in _distributed(item, threads, costs)]


def _distributed(item: Item, threads: int, costs: GpuCosts) -> list[Item]:
    if isinstance(item, Reduce):
        return _reduced(item, threads, costs)
    if not isinstance(item, Loop):
        return [item]
    scan = prefix_sum(item)
    if scan is not None:
        return scanned(scan, threads)
    chain, body = perfect_nest([item], is_parallel)
    width = span(body if chain else item.body)
    alone = iterations_alone(chain, width, threads)
    if chain and (width < MIN_SPAN or alone <= iterations_together(chain, width, threads, costs)):
        return [marked(chain, serial(body), Axis.THREAD)]
    if width < MIN_SPAN:
        return [one_thread(serial([item]))]
    return [replace(item, body=distributed(item.body, threads, costs))]


def iterations_alone(chain: Sequence[Variable], width: int, threads: int) -> int:
    """Estimate the iterations of a thread, if each has some rows for itself."""
    return -(-count(chain) // threads) * width


def iterations_together(chain: Sequence[Variable], width: int, threads: int, costs: GpuCosts) -> int:
    """Estimate the iterations of a thread, if all have a part of each row."""
    return count(chain) * (-(-width // threads) + costs.combine_iterations)


def _reduced(r: Reduce, threads: int, costs: GpuCosts) -> list[Item]:
    """Reduce in the threads of a team, and combine their results."""
    if isinstance(r.op, ArgMax | ArgMin):
        return distributed(index_by_reductions(r), threads, costs)
    if count(r.axes) <= -(-count(r.axes) // threads) + costs.combine_iterations // 2:
        return serial([r])
    wide = r.buffer.type.dtype.wide
    total = Buffer(accumulator(r), NdArrayType((), wide), Space.REGISTER)
    return [
        Store(total, (), number(r.identity, wide)),
        marked(r.axes, [Accumulate(total, (), r.op, converted(r.scalar, wide))], Axis.THREAD),
        Combine(total, (), r.op),
        Store(r.buffer, r.indices, converted(Load(total, ()), r.buffer.type.dtype)),
    ]


def span(items: Sequence[Item]) -> int:
    """Estimate how many threads can work at once on items, of which one runs after the other."""
    return max(map(_span, items), default=1)


def _span(item: Item) -> int:
    if isinstance(item, Reduce):
        return count(item.axes)
    if not isinstance(item, Loop):
        return 1
    if prefix_sum(item) is not None:
        return count([item.variable])
    within = span(item.body)
    return within * size_hint(product((item.variable.extent,))) if is_parallel(item) else within


def is_uniform(item: Item) -> bool:
    """Tell whether every thread of a team may run a statement alike: it assigns a register."""
    return not isinstance(item, Loop) and all(
        buffer.is_register for s in statements([item]) for buffer, _ in s.writes
    )
