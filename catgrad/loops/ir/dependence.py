"""Dependence analysis: prove that iterations of a loop do not meet, by the coefficients of its variable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import gcd

from catgrad.dims import Size
from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.index import Atom, Index, Modulo, Variable, index, is_below, modulo
from catgrad.loops.ir.nest import (
    Accumulate,
    Await,
    Barrier,
    Commit,
    Indices,
    Item,
    Kernel,
    Let,
    Loop,
    Statement,
    Store,
    Write,
    bound_variables,
    loops,
    may_fail,
    statements,
)
from catgrad.loops.ir.scalar import Buffer, reads


@dataclass(frozen=True)
class Iterations:
    """The iterations over a variable, the variables of loops within them, and the buffers they change."""

    variable: Variable
    inner: Collection[Variable]
    changed: Collection[Buffer]

    def are_separate(self, buffer: Buffer, accesses: Collection[Indices]) -> bool:
        """Prove that no two iterations access one element of a buffer: they never meet along some axis."""
        distinct = [*dict.fromkeys(accesses)]
        return any(self._never_meet(buffer, axis, distinct) for axis in range(len(distinct[0])))

    def _never_meet(self, buffer: Buffer, axis: int, accesses: Sequence[Indices]) -> bool:
        """Prove that two iterations never meet along an axis, whichever accesses they make."""
        along = [indices[axis] for indices in accesses]
        coefficient = along[0].coefficient(self.variable)
        step = coefficient * self.variable.step
        if step == 0 or any(i.coefficient(self.variable) != coefficient for i in along):
            return False
        if any(len(i.terms) > 1 for i in along):
            moving = {self.variable, *self.inner}
            fixed = {Index(tuple(term for term in i.terms if term[0] not in moving)) for i in along}
            if len(fixed) > 1 or not self._is_invariant(fixed.pop()):
                return False
        offsets = [d for i in along if isinstance(d := i.constant - along[0].constant, int)]
        if len(offsets) < len(along):
            return False
        least = min(offsets)
        rests = [Index(part_of(i, self.inner), d - least) for i, d in zip(along, offsets, strict=True)]
        apart = all(rest == Index() or is_below(rest, step) or is_below(rest, step * -1) for rest in rests)
        return apart and (len(along) == 1 or _stays_within(buffer, axis, accesses))

    def _is_invariant(self, index: Index) -> bool:
        """Prove that an index has one value in all iterations."""
        if any(v is self.variable or v in self.inner for v in index.variables()):
            return False
        changed = {buffer.home for buffer in self.changed}
        return all(load.buffer.home not in changed for scalar in reads((index,)) for load in scalar.loads())


def is_parallel(loop: Loop) -> bool:
    """Prove that a loop carries no dependence: no iteration accesses an element that another one writes.

    Registers that `Let` defines are private to an iteration. Bounds checks, which end a kernel at the first
    that fails, are not considered. Groups of asynchronous copies arrive in order.
    """
    return _is_parallel(loop, {buffer for buffer, _ in loop.writes})


def _is_parallel(loop: Loop, shared: Collection[Buffer]) -> bool:
    """Prove that no two iterations access the same element of the buffers that they share and write."""
    if any(isinstance(s, (Commit, Await)) for s in statements(loop.body)):
        return False
    changed = {s.buffer for s in statements(loop.body) if isinstance(s, Write)}
    iterations = Iterations(loop.variable, bound_variables(loop.body), changed)
    homes = {buffer.home for buffer in shared}
    accesses: dict[Buffer, list[Indices]] = {}
    for buffer, indices in (*loop.writes, *loop.reads):
        if buffer.home in homes:
            accesses.setdefault(buffer.home, []).append(indices)
    return all(iterations.are_separate(home, every) for home, every in accesses.items())


def vector_sums(loop: Loop, first: Mapping[Buffer, Statement]) -> list[Accumulate] | None:
    """Find the reductions to registers of a loop whose iterations may run in lanes; None if they may not.

    `first` are the statements that write buffers first: iterations own the registers that they define.
    """
    parts = list(statements(loop.body))
    if any(isinstance(item, Loop) for item in loop.body):
        return None
    own, sums = {id(part) for part in parts}, []
    stored: set[Buffer] = set()
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
            stored.add(s.buffer)
    return sums if _is_parallel(loop, stored) else None


def first_writes(items: Sequence[Item]) -> dict[Buffer, Statement]:
    """Find the statement that writes each buffer first."""
    return {buffer: s for s in reversed([*statements(items)]) for buffer, _ in s.writes}


def exchanged(items: Sequence[Item]) -> set[Buffer]:
    """Find the arrays that threads of a team exchange: written, and accessed on both sides of a barrier."""
    sides: list[set[Buffer]] = [set()]

    def walk(items: Sequence[Item]) -> None:
        for item in items:
            if isinstance(item, Barrier):
                sides.append(set())
            elif isinstance(item, Loop) and any(isinstance(s, Barrier) for s in item.statements):
                for _ in range(1 if item.axis.is_concurrent else 2):  # an iteration begins where one ends
                    sides[-1].update(buffer.home for buffer, _ in item.own_reads)
                    walk(item.body)
            else:
                sides[-1].update(buffer.home for buffer, _ in (*item.reads, *item.writes))

    walk(items)
    count = Counter(buffer for side in sides for buffer in side)
    written = {buffer.home for item in items for buffer, _ in item.writes}
    return {buffer for buffer in written if count[buffer] > 1}


def verify(kernel: Kernel) -> None:
    """Prove that loops may run as their kinds say.

    Raises: AssertionError naming the loop that carries a dependence
    """
    first = first_writes(kernel.body)
    for loop in loops(kernel.body):
        if loop.axis is Axis.PARALLEL:
            proved = is_parallel(loop) and not may_fail([loop])
        else:
            # Threads of a GPU share loops that were proved to be parallel before they were tiled.
            unmarked = not loop.axis.is_vector
            proved = unmarked or vector_sums(loop, first) is not None
        if not proved:
            raise AssertionError(f"iterations over {loop.variable} cannot be {loop.axis.value}")


def are_apart(buffer: Buffer, first: Indices, second: Indices) -> bool:
    """Prove that two accesses never meet, by the GCD test: along some axis they differ modulo their steps.

    An index of collapsed loops runs on beyond its axis, into those around it.
    """
    for axis in reversed(buffer.order):
        i, j = pair = first[axis], second[axis]
        if not all(is_below(_in_steps(each), buffer.type.shape[axis]) for each in pair):
            return False
        steps = [c for _, c in (*i.terms, *j.terms)]
        apart = i.constant - j.constant
        step = gcd(*(c for c in steps if isinstance(c, int))) if all(map(_is_number, steps)) else 1
        if isinstance(apart, int) and (apart % step if step else apart):
            return True
    return False


def _in_steps(place: Index) -> Index:
    """Count the steps of variables, and remainders in units that divide them: so bounds are lower."""

    def counted(atom: Atom) -> Index | None:
        if isinstance(atom, Variable) and atom.step != 1 and isinstance(atom.extent, int):
            return index(Variable(-(-atom.extent // atom.step), atom.name)) * atom.step
        if not isinstance(atom, Modulo):
            return None
        inner = _in_steps(atom.index)
        numbers = [atom.divisor, inner.constant, *(c for _, c in inner.terms)]
        unit = gcd(*(n for n in numbers if isinstance(n, int))) if all(map(_is_number, numbers)) else 1
        units = Index(tuple((a, c // unit) for a, c in inner.terms), inner.constant // unit)
        return modulo(units, atom.divisor // unit) * unit

    return place.replaced(counted)


def _is_number(size: Size) -> bool:
    return isinstance(size, int)


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


def part_of(whole: Index, variables: Collection[Variable]) -> tuple[tuple[Atom, Size], ...]:
    """Select the terms of some variables."""
    return tuple(term for term in whole.terms if term[0] in variables)
