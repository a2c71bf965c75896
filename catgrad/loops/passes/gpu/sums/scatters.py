"""Inspect scattered sums from the elements they end in: a team looks through all terms for those of its rows.

The terms of each element are added in their order, so results do not depend on how threads run.
"""

from __future__ import annotations

from collections.abc import Sequence

from catgrad.dims import Dim, product
from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.dependence import is_parallel
from catgrad.loops.ir.index import Read, Variable, index, stride
from catgrad.loops.ir.nest import (
    Accumulate,
    Kernel,
    Loop,
    Reduce,
    loops,
    nested,
    perfect_nest,
    size_hint,
)
from catgrad.loops.ir.scalar import Bounds, Buffer, Masked, number
from catgrad.loops.ir.steps import Lowered, Step
from catgrad.loops.machine import BLOCK, Machine
from catgrad.loops.passes.gpu.grids.threads import marked
from catgrad.loops.passes.gpu.grids.wide import widened
from catgrad.loops.passes.gpu.products.thread_tiles import stepped
from catgrad.loops.passes.schedule.fuse import is_beginning
from catgrad.ops.arithmetic import Add

TEAMS = 4
"""Teams of a multiprocessor that share rows, at most: each inspects all terms, however many rows it has."""

ROWS = 32
"""Rows of a team, where a symbol decides how many there are."""

MAX_INSPECTIONS = 2**26
"""Terms that are inspected for each element on its own, rather than by teams for many."""


def gather_scatters(lowered: Lowered, machine: Machine) -> Lowered:
    """Replace sums that are scattered to rows by sums that each row gathers."""
    return lowered.map(lambda steps: _gathered(steps, machine))


def _gathered(steps: Sequence[Step], machine: Machine) -> list[Step]:
    done: list[Step] = []
    for step in steps:
        found = _scatter(step)
        if found is None:
            done.append(step)
            continue
        variables, s, axis = found
        if _inspections(variables, s, axis) > MAX_INSPECTIONS:
            done.append(_tiled(variables, s, axis, machine))
        else:
            done = [each for each in done if not _only_zeroes(each, s.buffer)]
            done += _reduction(variables, s, axis)
    return done


def _scatter(step: Step) -> tuple[list[Variable], Accumulate, int] | None:
    """Recognise a perfect nest that adds to elements of which one index is read."""
    if not isinstance(step, Kernel):
        return None
    match perfect_nest(step.body):
        case variables, [Accumulate(op=Add()) as s] if not all(map(is_parallel, loops(step.body))):
            axes = [k for k, i in enumerate(s.indices) if any(isinstance(atom, Read) for atom, _ in i.terms)]
            return (variables, s, axes[0]) if len(axes) == 1 else None
    return None


def _inspections(variables: Sequence[Variable], s: Accumulate, axis: int) -> int:
    return size_hint(product((*(v.extent for v in variables), s.buffer.type.shape[axis])))


def _only_zeroes(step: Step, buffer: Buffer) -> bool:
    return (
        isinstance(step, Kernel)
        and all(map(is_beginning, step.body))
        and all(written is buffer for written, _ in step.writes)
    )


def _split(variables: Sequence[Variable], s: Accumulate, axis: int) -> tuple[list[Variable], list[Variable]]:
    """Variables of terms that are added to one element, and those that count elements within a row."""
    within = {v for k, i in enumerate(s.indices) if k != axis for v in i.variables()}
    return [v for v in variables if v not in within], [v for v in variables if v in within]


def _reduction(variables: Sequence[Variable], s: Accumulate, axis: int) -> list[Step]:
    """Sum all terms for each element, if there is one; terms of other rows are 0."""
    terms, own = _split(variables, s, axis)
    row = Variable(s.buffer.type.shape[axis], "row")
    mine = Bounds(s.indices[axis] - index(row), 1, True, True)
    scalar = Masked((mine,), s.scalar, number(0, s.scalar.dtype))
    indices = (*s.indices[:axis], index(row), *s.indices[axis + 1 :])
    nests = nested([row, *own], [Reduce(s.buffer, indices, s.op, scalar, tuple(terms))])
    return [Kernel(nests)] if nests else []


def _tiled(variables: Sequence[Variable], s: Accumulate, axis: int, machine: Machine) -> Step:
    """Add the terms of a tile of rows, one after the other, by a team for each tile."""
    rows, gpu = s.buffer.type.shape[axis], machine.gpu
    height = ROWS if isinstance(rows, Dim) else -(-rows // (TEAMS * gpu.costs.multiprocessors)) or 1
    tile = stepped(rows, "row_tile", height)
    terms, own = _split(variables, s, axis)
    chain, body = perfect_nest([marked(terms, [s], Axis.SERIAL)] if terms else [s])
    [s] = [each for each in body if isinstance(each, Accumulate)]
    mine = Bounds(s.indices[axis] - index(tile), height, True, True)
    if gpu.selects and chain and {*mine.index.variables()}.isdisjoint(own):
        loop = Loop(chain.pop(), [_row(own, s)], axis=Axis.SELECTED, conditions=(mine,))
    else:
        loop = _row(own, s, (mine,))
    for variable in reversed(chain):
        loop = Loop(variable, [loop])
    return Kernel([Loop(tile, [loop], axis=Axis.BLOCK, threads=BLOCK)])


def _row(own: Sequence[Variable], s: Accumulate, conditions: tuple[Bounds, ...] = ()) -> Loop:
    """Distribute the elements of a row among threads: four to each, as 16 bytes, if they lie side by side."""
    *outer, last = own or [Variable(1, "one")]
    loop = Loop(last, [s], axis=Axis.THREAD, conditions=conditions)
    if not conditions and stride(s.buffer.flat(s.indices), last) == 1:
        loop = widened(loop)
    for variable in reversed(outer):
        loop = Loop(variable, [loop], axis=Axis.THREAD)
    return loop
