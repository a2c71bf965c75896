"""Fusion of column sums with the rows that they sum: a team keeps sums of its own rows' columns.

    for part in range(parts):                        a team for each
        sum[j] = 0                                   in registers
        for k in range(rows / parts):
            ... the row part * rows / parts + k      as before
            sum[j] += f(row, j)                      while the row is at hand
        sums_of_parts[part, j] = sum[j]

The gradients of a norm's weight and shift are such sums, of rows whose own gradient is computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from catgrad.loops.ir.dependence import is_parallel
from catgrad.loops.ir.index import Index, Variable, index
from catgrad.loops.ir.nest import (
    Accumulate,
    Item,
    Kernel,
    Loop,
    Reduce,
    Store,
    Substituted,
    perfect_nest,
    rewritten,
)
from catgrad.loops.ir.scalar import Buffer, Load, Space, number
from catgrad.loops.ir.steps import Lowered, Step
from catgrad.loops.machine import Machine
from catgrad.loops.passes.gpu.grids.side_by_side import are_independent
from catgrad.loops.passes.schedule.reductions import accumulator
from catgrad.types import NdArrayType

MIN_PARTS = 2**10
"""Parts that occupy a GPU with a team each."""


def fuse_columns(lowered: Lowered, machine: Machine) -> Lowered:
    """Let teams that compute rows also sum columns, where these sums have many parts."""
    return lowered.map(_fused) if machine.gpu.row_registers else lowered


class _Sums(NamedTuple):
    """Reductions of one nest: for each part and column, over the rows of the part."""

    part: Variable
    columns: Variable
    reductions: list[Reduce]


def _fused(steps: Sequence[Step]) -> list[Step]:
    done: list[Step] = []
    for step in steps:
        place, fused = _place(done, step)
        if fused is None:
            done.append(step)
        else:
            done[place] = fused
    return done


def _place(done: Sequence[Step], step: Step) -> tuple[int, Kernel | None]:
    """Find the last kernel that computes the rows of which a step sums columns, and make one of both."""
    sums = _sums(step)
    if sums is not None:
        assert isinstance(step, Kernel)
        for place in reversed(range(len(done))):
            rows = done[place]
            if isinstance(rows, Kernel) and (fused := _one_kernel(rows, step, sums)):
                return place, fused
            if not are_independent(rows, step):
                break
    return 0, None


def _sums(step: Step) -> _Sums | None:
    match perfect_nest(step.body) if isinstance(step, Kernel) else None:
        case [part, columns], body if all(isinstance(r, Reduce) for r in body):
            reductions = [r for r in body if isinstance(r, Reduce)]
            axes = {tuple(v.extent for v in r.axes) for r in reductions}
            many = isinstance(part.extent, int) and part.extent >= MIN_PARTS and len(axes) == 1
            own = all(r.indices == (index(part), index(columns)) for r in reductions)
            return _Sums(part, columns, reductions) if many and own else None
    return None


def _one_kernel(rows: Kernel, step: Kernel, sums: _Sums) -> Kernel | None:
    """Make one kernel of rows and sums of their columns; None if they are other rows."""
    chain, body = perfect_nest(rows.body, is_parallel)
    axes = sums.reductions[0].axes
    values = _values(chain, axes, sums.part)
    if values is None or not _shares_columns(rows, sums) or not _is_same_row(rows, step, values):
        return None
    begin, adds, end = list[Item](), list[Item](), list[Item]()
    for r in sums.reductions:
        dtype = r.buffer.type.dtype
        total = Buffer(accumulator(r), NdArrayType(r.buffer.type.shape, dtype), Space.LOCAL, order=(1,))
        at = (index(sums.part), index(sums.columns))
        scalar = Substituted(dict(zip(r.axes, map(index, axes), strict=True))).scalar(r.scalar)
        begin.append(Store(total, at, number(r.identity, dtype)))
        adds.append(Accumulate(total, at, r.op, scalar))
        end.append(Store(r.buffer, r.indices, Load(total, at)))
    run: list[Item] = [*rewritten(body, Substituted(values)), Loop(sums.columns, adds)]
    for axis in reversed(axes):
        run = [Loop(axis, run)]
    return Kernel([Loop(sums.part, [Loop(sums.columns, begin), *run, Loop(sums.columns, end)])])


def _values(
    chain: Sequence[Variable], axes: Sequence[Variable], part: Variable
) -> dict[Variable, Index] | None:
    """Compute the variables of a row from those of a sum, of which one axis is dealt to the parts."""
    dealt = [a.extent * part.extent for a in axes]
    if len(chain) != len(axes) or sum(v.extent != a.extent for v, a in zip(chain, axes, strict=True)) != 1:
        return None
    values = {v: index(a) for v, a in zip(chain, axes, strict=True)}
    for v, a, extent in zip(chain, axes, dealt, strict=True):
        if v.extent != a.extent:
            if v.extent != extent or a.step != 1:
                return None
            values[v] = index(part) * a.extent + index(a)
    return values


def _shares_columns(rows: Kernel, sums: _Sums) -> bool:
    """Tell whether what is summed is at hand in the rows."""
    touched = {b.home for b, _ in (*rows.reads, *rows.writes)}
    loads = (load for r in sums.reductions for load in r.scalar.loads())
    return any(load.buffer.home in touched and sums.columns in load.variables for load in loads)


def _is_same_row(rows: Kernel, step: Kernel, values: Mapping[Variable, Index]) -> bool:
    """Prove that sums read of what the rows write only elements of the same row, and write nothing of it."""
    touched = {b.home for b, _ in (*rows.reads, *rows.writes)}
    if any(b.home in touched for b, _ in step.writes):
        return False
    for buffer, written in rows.writes:
        own = {axis: v for axis, i in enumerate(written) if (v := i.variable) in values}
        read = [at for b, at in step.reads if b.home is buffer.home]
        if read and {*own.values()} != {v for v in values if v.extent != 1}:
            return False
        if any(at[axis] != values[v] for at in read for axis, v in own.items() if v is not None):
            return False
    return True
