"""Schedule kernels for a GPU: tiles for matrix products, threads and teams for all other nests."""

from __future__ import annotations

from dataclasses import replace

from catgrad.loops.ir.nest import Axis, Kernel, Loop, Replaced, loops, rewritten
from catgrad.loops.ir.scalar import Buffer, Space
from catgrad.loops.ir.steps import Lowered
from catgrad.loops.machine import Machine
from catgrad.loops.passes.gpu.barriers import with_barriers
from catgrad.loops.passes.gpu.spaces import with_spaces
from catgrad.loops.passes.gpu.threads import with_threads
from catgrad.loops.passes.gpu.tiles import tiled


def schedule_threads(lowered: Lowered, machine: Machine) -> Lowered:
    """Distribute every kernel over the threads of a GPU."""
    return lowered.map_kernels(_scheduled)


def _scheduled(kernel: Kernel) -> Kernel:
    return with_barriers(tiled(kernel) or with_spaces(with_threads(kernel)))


def privatise(kernel: Kernel, machine: Machine) -> Kernel:
    """Leave out the axes of local arrays along which each thread has its own."""
    threads = {loop.variable for loop in loops(kernel.body) if loop.axis.is_concurrent}
    new: dict[Buffer, Buffer] = {}
    for buffer, indices in (*kernel.reads, *kernel.writes):
        if buffer.space is Space.LOCAL:
            order = tuple(axis for axis in buffer.order if indices[axis].variable not in threads)
            new[buffer] = replace(buffer, order=order) if buffer not in new else new[buffer]
    return Kernel(rewritten(kernel.body, Replaced(new))) if new else kernel


__all__ = ["Axis", "Loop", "privatise", "schedule_threads"]
