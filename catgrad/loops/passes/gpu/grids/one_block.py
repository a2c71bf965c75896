"""Persistent block: small functions run again and again in one block, whose threads wait at barriers.

for t in range(steps):          a launch of one block in all
    kernel after kernel, each distributed among the threads, intermediate arrays in shared memory
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from catgrad.dims import Dim
from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.index import Index, Variable, index
from catgrad.loops.ir.nest import (
    Check,
    Item,
    Kernel,
    Loop,
    Replaced,
    Rewriter,
    rewritten,
    size_hint,
    statements,
)
from catgrad.loops.ir.scalar import Buffer, Load, Scalar, Space
from catgrad.loops.ir.steps import Lowered, kernels
from catgrad.loops.machine import LARGE_BLOCK, Machine
from catgrad.loops.memory_plan import byte_size
from catgrad.loops.passes.gpu.grids.barriers import with_barriers
from catgrad.loops.passes.gpu.grids.spaces import with_spaces
from catgrad.loops.passes.gpu.grids.step_rows import StepRows
from catgrad.loops.passes.gpu.grids.threads import distributed
from catgrad.loops.passes.schedule.fuse import iterations
from catgrad.programs.ports import Role

MAX_WORK = 2**18
"""Iterations of a step that one block runs faster than its grids are launched.

A multiprocessor loads 32 elements of shared memory in a cycle, and most iterations load two: so many take
16,000 cycles, which are about four launches of a graph.
"""

STEPS = "steps"
"""The symbol for the number of repetitions."""


def _fits_one_block(lowered: Lowered) -> bool:
    """Tell whether one block can run all kernels of a function, and is worth it."""
    items = [item for step in lowered.steps if isinstance(step, Kernel) for item in step.body]
    straight = all(isinstance(step, Kernel) for step in lowered.steps)
    whole = all(isinstance(b.size, int) for item in items for b, _ in (*item.reads, *item.writes))
    checked = any(isinstance(s, Check) for s in statements(items))
    return straight and whole and not checked and sum(map(iterations, items)) <= MAX_WORK


def repeat_in_one_block(lowered: Lowered, machine: Machine) -> Lowered:
    """Run a function on each row of its own arguments, one after the other, in one block."""
    if not _fits_one_block(lowered):
        return lowered
    t = Variable(Dim(STEPS), "t")
    many = {
        buffer: replace(
            buffer, type=buffer.type.with_shape((t.extent, *buffer.type.shape)), order=_order(buffer)
        )
        for buffers, ports in (
            (lowered.arguments, lowered.function.inputs),
            (lowered.results, lowered.function.outputs),
        )
        for buffer, port in zip(buffers, ports, strict=True)
        if not port.role.is_table and port.role is not Role.GRADIENT
    }
    items: list[Item] = [item for kernel in kernels(lowered.steps) for item in kernel.body]
    own = {b: replace(b, space=Space.LOCAL if b.order else Space.REGISTER) for b in _temporaries(items)}
    given = [many[buffer] for buffer in lowered.arguments if buffer in many]
    rows = StepRows.of(given, machine.gpu.shared_bytes - sum(size_hint(byte_size(b)) for b in own))
    stage, row = rows.stage(t), index(t)
    places = {b: (rows.places[a], stage) if a in rows.places else (a, row) for b, a in many.items()}
    items = _rows(rewritten(items, Replaced(own)), _Rows(places))
    body = distributed(items, LARGE_BLOCK, machine.gpu.costs)
    team = Loop(Variable(1, "team"), [Loop(t, body)], axis=Axis.BLOCK, threads=LARGE_BLOCK)
    left = replace(machine.gpu, shared_bytes=machine.gpu.shared_bytes - rows.bytes)
    rest = replace(machine, gpu=left)
    [team] = with_barriers(with_spaces(Kernel([team]), rest)).body  # type: ignore[assignment]
    kernel = Kernel([replace(team, body=rows.brought_ahead(team.body))])
    arguments, results = ([many.get(b, b) for b in each] for each in (lowered.arguments, lowered.results))
    return Lowered(lowered.function, [kernel], arguments, results)


def is_repeated(lowered: Lowered) -> bool:
    """Tell whether a function has become one that runs on each row of its own arguments."""
    return any(b.type.shape[:1] == (Dim(STEPS),) for b in (*lowered.arguments, *lowered.results))


def _order(buffer: Buffer) -> tuple[int, ...]:
    return (0, *(axis + 1 for axis in buffer.order))


def _temporaries(items: list[Item]) -> set[Buffer]:
    every = {b for item in items for b, _ in (*item.reads, *item.writes)}
    return {b for b in every if b.space is Space.WORKSPACE}


def _rows(items: list[Item], change: _Rows) -> list[Item]:
    """Let statements read and write rows of arrays."""
    done: list[Item] = []
    for item in items:
        if isinstance(item, Loop):
            done.append(replace(item, body=_rows(item.body, change)))
            continue
        new: Any = item.map(change)
        if new.buffer in change.places:
            buffer, row = change.places[new.buffer]
            new = replace(new, buffer=buffer, indices=(row, *new.indices))
        done.append(new)
    return done


class _Rows(Rewriter):
    """Replace elements of arrays by those of the row of arrays with one more axis."""

    def __init__(self, places: Mapping[Buffer, tuple[Buffer, Index]]) -> None:
        super().__init__()
        self.places = places

    def _changed(self, old: Scalar) -> Scalar:
        if isinstance(old, Load) and old.buffer in self.places:
            buffer, row = self.places[old.buffer]
            return Load(buffer, (row, *self.indices(old.indices)))
        return super()._changed(old)
