"""Dependence analysis: prove that iterations of a loop do not meet, by the coefficients of its variable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from catgrad.dims import Size
from catgrad.loops.ir.index import Atom, Index, Variable
from catgrad.loops.ir.nest import (
    Accumulate,
    Axis,
    Indices,
    Item,
    Kernel,
    Let,
    Loop,
    Statement,
    Store,
    loops,
    may_fail,
    statements,
)
from catgrad.loops.ir.scalar import Buffer


def is_parallel(loop: Loop) -> bool:
    """Prove that a loop carries no dependence: no two iterations write the same element."""
    inner = {each.variable for each in loops(loop.body)}
    written: dict[Buffer, list[Indices]] = {}
    for buffer, indices in loop.writes:
        written.setdefault(buffer, []).append(indices)
    return all(is_separate(buffer, accesses, loop.variable, inner) for buffer, accesses in written.items())


def is_separate(
    buffer: Buffer, accesses: Sequence[Indices], variable: Variable, inner: set[Variable]
) -> bool:
    """Prove that no two iterations over a variable meet in a buffer, for some axis of which that is so."""
    return any(_separates(buffer, axis, accesses, variable, inner) for axis in range(len(accesses[0])))


def vector_sums(loop: Loop, first: Mapping[Buffer, Statement]) -> list[Accumulate] | None:
    """Find the reductions to registers of a loop whose iterations may run in lanes; None if they may not.

    `first` are the statements that write buffers first: iterations own the registers that they define.
    """
    parts = list(statements(loop.body))
    if any(isinstance(item, Loop) for item in loop.body):
        return None
    own, sums = {id(part) for part in parts}, []
    stored: list[Item] = []
    for s in parts:
        if not isinstance(s, (Store, Accumulate)):
            return None
        if isinstance(s, Let):
            continue
        if s.buffer.is_register and id(first[s.buffer]) in own:
            continue
        if isinstance(s, Accumulate) and not any(i.coefficient(loop.variable) for i in s.indices):
            reads = sum(buffer is s.buffer for part in parts for buffer, _ in part.reads)
            if not s.buffer.is_register or reads > 1:
                return None
            sums.append(s)
        elif s.buffer.is_register:
            return None
        else:
            stored.append(s)
    return sums if is_parallel(Loop(loop.variable, stored)) else None


def first_writes(items: Sequence[Item]) -> dict[Buffer, Statement]:
    """Find the statement that writes each buffer first."""
    return {buffer: s for s in reversed([*statements(items)]) for buffer, _ in s.writes}


def verify(kernel: Kernel) -> None:
    """Prove that loops may run as their kinds say.

    Raises: AssertionError naming the loop that carries a dependence
    """
    first = first_writes(kernel.body)
    for loop in loops(kernel.body):
        if loop.axis is Axis.PARALLEL:
            proved = is_parallel(loop) and not may_fail([loop])
        else:
            proved = loop.axis is Axis.SERIAL or vector_sums(loop, first) is not None
        if not proved:
            raise AssertionError(f"iterations over {loop.variable} cannot be {loop.axis.value}")


def _separates(
    buffer: Buffer, axis: int, accesses: Sequence[Indices], variable: Variable, inner: set[Variable]
) -> bool:
    """Prove that two iterations never meet along an axis, whichever accesses they make."""
    along = [indices[axis] for indices in accesses]
    step, moving = along[0].coefficient(variable), {variable, *inner}
    fixed = {Index(tuple(term for term in i.terms if term[0] not in moving)) for i in along}
    if step == 0 or any(i.coefficient(variable) != step for i in along) or len(fixed) > 1:
        return False
    if not moving.isdisjoint(fixed.pop().variables()):
        return False
    offsets = [d for i in along if isinstance(d := i.constant - along[0].constant, int)]
    if len(offsets) < len(along):
        return False
    rests = [Index(part_of(i, inner), d - min(offsets)) for i, d in zip(along, offsets, strict=True)]
    apart = all(rest == Index() or is_below(rest, step) or is_below(rest, step * -1) for rest in rests)
    return apart and (len(along) == 1 or _stays_within(buffer, axis, accesses))


def _stays_within(buffer: Buffer, axis: int, accesses: Sequence[Indices]) -> bool:
    """Prove that equal elements have equal indices along an axis.

    Collapsed loops have one index that runs on beyond its axis, into the next element of the axis around.
    """
    around = buffer.order[: buffer.order.index(axis)] if axis in buffer.order else ()
    same = all(len({indices[a] for indices in accesses}) == 1 for a in around)
    return same or all(is_below(indices[axis], buffer.type.shape[axis]) for indices in accesses)


def same_iteration(variable: Variable, written: Indices, read: Indices, joined: set[Index]) -> bool:
    """Prove that what is read was written in the same iteration of the loop over a variable."""
    outer = {v for i in joined if (v := i.variable)}
    pinned = False
    for w, r in zip(written, read, strict=True):
        step = w.coefficient(variable)
        if step == 0:
            continue
        pinned = True
        if part_of(w, outer) != part_of(r, outer) or w.constant != r.constant:
            return False
        steps = [c for atom, c in w.terms if atom in outer]
        rest = Index(tuple(t for t in r.terms if t[0] not in outer))
        if any(not is_below(rest, size) for size in steps):
            return False
    return pinned


def part_of(whole: Index, variables: set[Variable]) -> tuple[tuple[Atom, Size], ...]:
    """Select the terms of some variables."""
    return tuple(term for term in whole.terms if term[0] in variables)


def is_below(rest: Index, size: object) -> bool:
    """Prove that an index is less than a size, whatever the symbols are."""
    greatest = rest.greatest
    room = None if greatest is None else size - greatest  # type: ignore[operator]
    return isinstance(room, int) and room >= 1
