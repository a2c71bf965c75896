"""Schedule kernels for a GPU: tiles for matrix products, threads and teams for all other nests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.index import Variable
from catgrad.loops.ir.nest import (
    Item,
    Kernel,
    Loop,
    Replaced,
    loops,
    perfect_nest,
    rewritten,
    scalars,
    size_hint,
    statements,
)
from catgrad.loops.ir.scalar import Buffer, Load, Space
from catgrad.loops.ir.steps import Attend, Lowered, Step
from catgrad.loops.machine import Machine
from catgrad.loops.passes.gpu.attention.tensor_cores import tensor_attention
from catgrad.loops.passes.gpu.attention.tiled import attention
from catgrad.loops.passes.gpu.grids.barriers import with_barriers
from catgrad.loops.passes.gpu.grids.spaces import with_spaces
from catgrad.loops.passes.gpu.grids.team_scalars import with_team_scalars
from catgrad.loops.passes.gpu.grids.threads import with_threads
from catgrad.loops.passes.gpu.grids.transposes import transposed
from catgrad.loops.passes.gpu.products.tiles import tiled
from catgrad.loops.passes.gpu.sums.register_rows import in_register_rows


def schedule_threads(lowered: Lowered, machine: Machine) -> Lowered:
    """Distribute every kernel over the threads of a GPU."""
    return lowered.map(lambda steps: [_scheduled(step, machine) for step in steps])


def _scheduled(step: Step, machine: Machine) -> Step:
    if isinstance(step, Attend):
        return with_barriers(tensor_attention(step, machine) or attention(step))
    if not isinstance(step, Kernel):
        return step
    return with_barriers(tiled(step, machine) or transposed(step) or _in_teams(step, machine))


def _in_teams(kernel: Kernel, machine: Machine) -> Kernel:
    kernel, own = in_register_rows(with_team_scalars(with_threads(kernel, machine)), machine)
    return with_spaces(kernel, machine, own)


def separate_warps(lowered: Lowered, machine: Machine) -> Lowered:
    """Make each team of a warp a block of its own, for machines whose barriers are those of blocks."""
    return lowered.map(lambda steps: [_separated(s) if isinstance(s, Kernel) else s for s in steps])


def _separated(kernel: Kernel) -> Kernel:
    return Kernel([_as_block(item) for item in kernel.body])


def _as_block(item: Item) -> Item:
    if not isinstance(item, Loop) or item.axis is not Axis.WARP:
        return item
    return replace(item, body=[_as_block(inner) for inner in item.body], axis=Axis.BLOCK)


def privatise(kernel: Kernel, machine: Machine) -> Kernel:
    """Leave out the axes of local arrays along which each thread has its own, and loops over these alone."""
    threads = {loop.variable for loop in loops(kernel.body) if loop.axis.is_concurrent}
    own: dict[Buffer, set[int]] = {}
    for buffer, indices in (*kernel.writes, *kernel.reads):
        if buffer.space is Space.LOCAL:
            axes = (axis for axis in buffer.order if indices[axis].variable in threads)
            own.setdefault(buffer, set()).update(axes)
    new = {
        b: replace(b, order=tuple(axis for axis in b.order if axis not in axes)) for b, axes in own.items()
    }
    return Kernel(_alike(rewritten(kernel.body, Replaced(new)), 0)) if new else kernel


def _alike(items: Sequence[Item], threads: int) -> list[Item]:
    """Unwrap nests in which all threads of a team do the same."""
    done: list[Item] = []
    for item in items:
        if not isinstance(item, Loop):
            done.append(item)
        elif item.axis is not Axis.THREAD:
            done.append(
                replace(item, body=_alike(item.body, item.threads if item.axis.has_team else threads))
            )
        else:
            chain, body = perfect_nest([item], lambda x: x.axis is Axis.THREAD and not x.conditions)
            once = prod(size_hint(v.extent) for v in chain) == threads
            done += body if once and (_is_of_warp(body) or _used(body).isdisjoint(chain)) else [item]
    return done


def _is_of_warp(items: Sequence[Item]) -> bool:
    """Tell whether the threads of a warp act together in items, on tensor cores or to exchange registers."""
    return all(isinstance(item, Loop) and item.axis in (Axis.TENSOR, Axis.LANES) for item in items)


def _used(items: Sequence[Item]) -> set[Variable]:
    """Find the variables that addresses and scalars depend on: not those of axes that are not stored."""
    found = {v for item in items for b, at in (*item.reads, *item.writes) for v in b.flat(at).variables()}
    found |= {v for loop in loops(items) for c in loop.conditions for v in c.index.variables()}
    for node in (node for s in statements(items) for scalar in scalars(s) for node in scalar.nodes()):
        if not isinstance(node, Load):
            found |= node.variables.difference(*(operand.variables for operand in node.operands))
    return found
