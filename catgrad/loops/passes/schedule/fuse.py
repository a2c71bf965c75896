"""Loop fusion: nests over the same elements become one, where no dependence is reversed by it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from math import prod

from catgrad.dims import Size
from catgrad.loops.ir.dependence import Iterations, is_parallel, same_iteration
from catgrad.loops.ir.index import Index, Variable, index
from catgrad.loops.ir.nest import (
    Accumulate,
    Check,
    Indices,
    Item,
    Kernel,
    Loop,
    MatMul,
    Reduce,
    Statement,
    Store,
    bound_variables,
    may_fail,
    scalars,
    size_hint,
    statements,
    substituted,
)
from catgrad.loops.ir.scalar import Buffer, Number
from catgrad.loops.ir.steps import Lowered, Step
from catgrad.loops.machine import Machine

Fit = Callable[[Loop, Loop], bool]
"""Predicate: may a nest become part of an earlier one, by their sizes?"""

MAX_SERIAL_ITERATIONS = 2**15
"""Iterations of a nest that is fused even if its loops are then not parallel."""

FEW_ITERATIONS = 2**10
"""Iterations of a nest that moves to before another, at most: what it computes is kept for longer."""

MAX_STATEMENTS = 64
"""Statements of a nest, not counting sums over its iterations: a longer one ends where its form recurs."""

FEW_STATEMENTS = 4
"""Statements of a nest that ends there, at least."""


def fuse(lowered: Lowered, machine: Machine) -> Lowered:
    """Fuse the kernels between loops and branches of the function."""
    return lowered.map(lambda steps: fused_steps(steps))


def fused_steps(steps: Sequence[Step], fit: Fit | None = None) -> list[Step]:
    """Fuse kernels that follow each other."""
    result: list[Step] = []
    for are_kernels, run in groupby(steps, lambda step: isinstance(step, Kernel)):
        if are_kernels:
            result += fused([item for kernel in run for item in kernel.body], fit)  # type: ignore[union-attr, misc]
        else:
            result += run
    return result


def fused(items: Sequence[Item], fit: Fit | None = None) -> list[Kernel]:
    """Fuse each item with the last earlier nest that it may join and fits; one kernel for each nest.

    A short nest on which an item depends moves to before the nest that the item joins.
    """
    block = _Block()
    block.fill(items, fit)
    if block.long:
        block = _Block(block.long)
        block.fill(_sums_early(items), fit)
    return _grouped(block.items())


def _sums_early(items: Sequence[Item]) -> list[Item]:
    """Move sums over iterations to directly after their terms, whose nest may end before the next item."""
    if may_fail(items):
        return [*items]
    touched, written = dict[Buffer, int](), dict[Buffer, int]()
    places = list[tuple[int, int]]()
    for number, item in enumerate(items):
        mine, place = _Accesses.of(item), number
        before = [written.get(b, -1) for b in mine.touched] + [touched.get(b, -1) for b in mine.written]
        is_sum = isinstance(item, Loop) and mine.is_total(item.variable)
        if is_beginning(item) or (is_sum and any(b in written for b in mine.touched.keys() - mine.written)):
            place = max(before, default=-1)
        places.append((place, number))
        touched |= {b: max(place, touched.get(b, -1)) for b in mine.touched}
        written |= dict.fromkeys(mine.written, place)
    return [items[number] for _, number in sorted(places)]


@dataclass
class _Accesses:
    """The elements that items touch, by buffer."""

    touched: dict[Buffer, list[Indices]] = field(default_factory=dict)
    written: dict[Buffer, list[Indices]] = field(default_factory=dict)
    _strides: dict[tuple[Buffer, Variable], tuple[int, set[Size]]] = field(default_factory=dict)
    """Strides of the first so many accesses of a buffer along a variable."""

    @staticmethod
    def of(item: Item) -> _Accesses:
        """Collect those of an item."""
        found = _Accesses()
        for s in statements([item]):
            for buffer, indices in s.reads:
                found.touched.setdefault(buffer, []).append(indices)
            for buffer, indices in s.writes:
                found.touched.setdefault(buffer, []).append(indices)
                found.written.setdefault(buffer, []).append(indices)
        return found

    def add(self, other: _Accesses) -> None:
        """Add those of another item."""
        for mine, new in ((self.touched, other.touched), (self.written, other.written)):
            for buffer, accesses in new.items():
                mine.setdefault(buffer, []).extend(accesses)

    def is_total(self, variable: Variable) -> bool:
        """Tell whether the iterations of a loop write the same elements: sums over them."""
        return all(
            buffer.stride(indices, variable) == 0
            for buffer, places in self.written.items()
            for indices in places
        )

    def strides(self, buffer: Buffer, variable: Variable) -> set[Size]:
        """Find the strides of the elements of a buffer along a variable."""
        known, found = self._strides.get((buffer, variable), (0, set[Size]()))
        places = self.touched[buffer]
        if known < len(places):
            found |= {buffer.stride(indices, variable) for indices in places[known:]}
            self._strides[buffer, variable] = len(places), found
        return found


class _Nest:
    """A loop that grows, with the state of its dependence analysis kept up to date."""

    def __init__(self, loop: Loop, accesses: _Accesses) -> None:
        self.first, self.variable, self.accesses = loop, loop.variable, accesses
        self.fails, self.inner = may_fail([loop]), bound_variables(loop.body)
        self.statements, self.forms = len(loop.statements), {form(loop)}
        self.iterations = iterations(loop)
        self._block: _Block | None = None
        self._separate: dict[Buffer, bool] = {}

    @property
    def block(self) -> _Block:
        """The items within, among which others are inserted: most loops never need it."""
        if self._block is None:
            self._block = _Block()
            for item in self.first.body:
                self._block.place(item)
            self._block.accesses, self._block.variables = self.accesses, self.inner
        return self._block

    def grown(self, buffers: Collection[Buffer]) -> None:
        """Forget what was known of buffers to which accesses were added."""
        for buffer in buffers:
            self._separate.pop(buffer, None)

    @property
    def is_parallel(self) -> bool:
        """Prove that the loop carries no dependence, buffer by buffer."""
        written = self.accesses.written
        iterations = Iterations(self.variable, self.inner, written)
        for buffer in written:
            if buffer not in self._separate:
                self._separate[buffer] = iterations.are_separate(buffer, self.accesses.touched[buffer])
            if not self._separate[buffer]:
                return False
        return True

    def loop(self) -> Loop:
        """The loop as it is now."""
        return replace(self.first, body=self._block.items()) if self._block else self.first


class _Joiner:
    """A loop that looks for a nest to join, with what is known of it."""

    def __init__(self, loop: Loop) -> None:
        self.loop, self.variable, self.accesses = loop, loop.variable, _Accesses.of(loop)

    @cached_property
    def fails(self) -> bool:
        """Tell whether there is a bounds check in it."""
        return may_fail([self.loop])

    @cached_property
    def is_parallel(self) -> bool:
        """Prove that it carries no dependence."""
        return is_parallel(self.loop)

    @cached_property
    def form(self) -> Hashable:
        """The extents of the loop, and the kinds of its scalars."""
        return form(self.loop)

    @cached_property
    def is_total(self) -> bool:
        """Tell whether it only sums up its iterations."""
        return self.accesses.is_total(self.variable)


@dataclass(eq=False)
class _Part:
    """An item of a block, or the nest that grows from it, with its position."""

    item: _Nest | Statement
    accesses: _Accesses
    position: int

    @property
    def fails(self) -> bool:
        """Tell whether there is a bounds check in it."""
        return self.item.fails if isinstance(self.item, _Nest) else isinstance(self.item, Check)

    @property
    def is_short(self) -> bool:
        """Tell whether it is a nest of few iterations without matrix products."""
        if not isinstance(self.item, _Nest) or self.item.iterations > FEW_ITERATIONS:
            return False
        return not any(isinstance(s, MatMul) for s in self.item.loop().statements)

    def is_independent_of(self, other: _Part) -> bool:
        """Tell whether neither writes what the other touches."""
        pairs = (self.accesses, other.accesses), (other.accesses, self.accesses)
        return all(one.written.keys().isdisjoint(two.touched) for one, two in pairs)


class _Block:
    """Items one after the other, into whose nests further items are inserted.

    `long` are the first items of nests that exceed their size, or go on where another ended.
    """

    def __init__(self, long: Collection[Loop] = ()) -> None:
        self.long = set(long)
        self.parts: list[_Part] = []
        self.users: dict[Buffer, dict[_Part, None]] = {}
        self.accesses = _Accesses()
        self.variables: set[Variable] = set()
        self.fails = False
        self.beginnings = 0

    def fill(self, items: Sequence[Item], fit: Fit | None) -> None:
        """Insert items into an outermost block."""
        for item in items:
            self.insert(item, {}, fit, outermost=True)

    def items(self) -> list[Item]:
        """The items as they are now."""
        return [part.item.loop() if isinstance(part.item, _Nest) else part.item for part in self.parts]

    def append(self, item: Item, position: int | None = None) -> _Accesses:
        """Add an item at the end, or before others."""
        part = self.place(item, position)
        self._grown(part, part.accesses, bound_variables([item]), part.fails)
        return part.accesses

    def place(self, item: Item, position: int | None = None) -> _Part:
        """Make an item the part at a position, which is the end if none is given."""
        position = len(self.parts) if position is None else position
        accesses = _Accesses.of(item)
        part = _Part(_Nest(item, accesses) if isinstance(item, Loop) else item, accesses, position)
        for later in self.parts[position:]:
            later.position += 1
        self.parts.insert(position, part)
        if position == self.beginnings and is_beginning(item):
            self.beginnings += 1
        return part

    def insert(
        self, item: Item, values: Mapping[Variable, Index], fit: Fit | None = None, outermost: bool = False
    ) -> _Accesses:
        """Add an item, with indices for variables, to the nest that it may join, or at the end."""
        if isinstance(item, Loop) and not item.begins:
            part = self._joined(item, values, fit, outermost)
            if part is not None:
                return self._join(part, item, values)
        fresh = substituted(item, values)
        if is_beginning(fresh) and self.accesses.touched.keys().isdisjoint(b for b, _ in fresh.writes):
            # An initialisation depends on nothing: first, it blocks no fusion of the loop that accumulates.
            return self.append(fresh, self.beginnings)
        return self.append(fresh)

    def _join(self, part: _Part, item: Loop, values: Mapping[Variable, Index]) -> _Accesses:
        nest = part.item
        assert isinstance(nest, _Nest)
        inside, new = {**values, item.variable: index(nest.variable)}, _Accesses()
        for each in item.body:
            new.add(nest.block.insert(each, inside))
        if not new.is_total(nest.variable):
            nest.statements += len(item.statements)
            nest.forms.add(form(item))
        nest.iterations += iterations(item)
        nest.grown(new.touched)
        if not is_beginning(item):
            self.beginnings = min(self.beginnings, part.position)
        self._grown(part, new, nest.inner, False)
        return new

    def _grown(self, part: _Part, accesses: _Accesses, variables: set[Variable], fails: bool) -> None:
        self.accesses.add(accesses)
        for buffer in accesses.touched:
            self.users.setdefault(buffer, {})[part] = None
        self.variables |= variables
        self.fails |= fails

    def _joined(
        self, item: Loop, values: Mapping[Variable, Index], fit: Fit | None, outermost: bool
    ) -> _Part | None:
        """Find the last nest that a loop may join; an outermost one must share a buffer with it, and fit.

        Short nests on which the loop depends move to before the nest that is found. The loop joins one of
        them if there is no other.
        """
        joiner = _Joiner(item)
        mine, between, short = joiner.accesses, list[_Part](), list[tuple[_Part, list[_Part]]]()
        for part in self._candidates(mine, outermost):
            theirs = part.accesses
            shared = mine.touched.keys() & theirs.touched.keys()
            if isinstance(part.item, _Nest):
                nest = part.item
                worth = not outermost or _is_worth_joining(nest, joiner, shared)
                if worth and _may_join(nest, joiner, values) and (not fit or fit(nest.loop(), item)):
                    if outermost and self._ends_before(nest, joiner):
                        self.long |= {nest.first, item}
                    elif outermost and part.is_short and iterations(item) > FEW_ITERATIONS and not short:
                        short.append((part, [*between]))
                    else:
                        return part if self._move(between, part) else self._in_short(short)
            if part.fails:
                return self._in_short(short)  # an index that is checked there may be used here
            if any(buffer in theirs.written or buffer in mine.written for buffer in shared):
                # It reads what the other writes, or writes what the other reads.
                if not (outermost and part.is_short):
                    return self._in_short(short)
                between.append(part)
        return self._in_short(short)

    def _in_short(self, found: Sequence[tuple[_Part, Collection[_Part]]]) -> _Part | None:
        """Return the short nest that a loop may join, if one was found, and the parts in between can move."""
        return next((part for part, between in found if self._move(between, part)), None)

    def _move(self, between: Collection[_Part], first: _Part) -> bool:
        """Move parts to before the nest that a loop joins; return False if a dependence forbids it."""
        start = first.position
        moving = sorted(between, key=lambda part: part.position)
        rest = [part for part in self.parts[start:] if part not in moving]
        for part in moving:
            passed = (other for other in rest if other.position < part.position)
            if not all(part.is_independent_of(other) for other in passed):
                return False
        if moving:
            self.parts[start:] = [*moving, *rest]
            self.beginnings = min(self.beginnings, start)
            for position, part in enumerate(self.parts):
                part.position = position
        return True

    def _ends_before(self, nest: _Nest, joiner: _Joiner) -> bool:
        """Tell whether a nest is long enough to end before a loop.

        A loop that only sums over the iterations always joins: nothing that reads its sums can follow.
        """
        if joiner.is_total:
            return False
        is_again = nest.first in self.long and joiner.form in nest.forms
        return nest.statements >= (FEW_STATEMENTS if is_again else MAX_STATEMENTS)

    def _candidates(self, mine: _Accesses, outermost: bool) -> Iterable[_Part]:
        """Yield the parts from the last backwards; for an outermost loop those with its buffers or checks."""
        if not outermost or self.fails:
            return reversed(self.parts)
        parts = {part: None for buffer in mine.touched for part in self.users.get(buffer, ())}
        return sorted(parts, key=lambda part: -part.position)


def _is_worth_joining(nest: _Nest, joiner: _Joiner, shared: Collection[Buffer]) -> bool:
    """Tell whether iterations share a buffer that both loops traverse with an equal stride."""
    return any(
        nest.accesses.strides(buffer, nest.variable) & joiner.accesses.strides(buffer, joiner.variable) - {0}
        for buffer in shared
    )


def _may_join(nest: _Nest, joiner: _Joiner, values: Mapping[Variable, Index]) -> bool:
    if nest.variable.extent != joiner.variable.extent or nest.fails or joiner.fails:
        return False
    if not joiner.is_parallel and nest.is_parallel:
        spreads = bool(values) and any(isinstance(each, Loop) for each in joiner.loop.body)
        if spreads or iterations(joiner.loop) > MAX_SERIAL_ITERATIONS:
            return False  # it would keep other statements from threads or vectors
    trial = {**values, joiner.variable: index(nest.variable)}
    joined, theirs, mine = set(trial.values()), nest.accesses, joiner.accesses

    def meet(there: Sequence[Indices], here: Sequence[Indices]) -> bool:
        moved = [tuple(i.substitute(trial) for i in indices) for indices in here]
        return all(same_iteration(nest.variable, x, y, joined) for x in there for y in moved)

    after = mine.touched.keys() & theirs.written.keys()
    before = mine.written.keys() & theirs.touched.keys()
    return all(meet(theirs.written[buffer], mine.touched[buffer]) for buffer in after) and all(
        meet(theirs.touched[buffer], mine.written[buffer]) for buffer in before
    )


def iterations(item: Item) -> int:
    """Estimate the iterations of an item, those of reductions included."""
    if isinstance(item, Loop):
        return size_hint(item.variable.extent) * sum(map(iterations, item.body))
    return prod(size_hint(v.extent) for v in item.axes) if isinstance(item, Reduce) else 1


def form(item: Item) -> Hashable:
    """Return the form of an item: the extents of its loops, and the kinds and dtypes of the scalars in it."""
    if isinstance(item, Loop):
        return item.variable.extent, *map(form, item.body)
    return type(item), *((type(scalar), scalar.dtype) for scalar in scalars(item))


def _grouped(items: Sequence[Item]) -> list[Kernel]:
    """Make a kernel of each nest, with the initialisations of its accumulators before it."""
    kernels: list[Kernel] = []
    waiting, placed = dict[Buffer, list[int]](), set[int]()
    accumulated = [set(_accumulated(item)) for item in items]
    everything = set[Buffer]().union(*accumulated)
    for number, (item, mine) in enumerate(zip(items, accumulated, strict=True)):
        if is_beginning(item) and not everything.isdisjoint(written := {buffer for buffer, _ in item.writes}):
            for buffer in written:
                waiting.setdefault(buffer, []).append(number)
            continue
        first = sorted({n for buffer in mine for n in waiting.pop(buffer, ())} - placed)
        placed.update(first)
        if not isinstance(item, Loop | MatMul) and (home := _home(kernels, item)) is not None:
            home.body += [*(items[n] for n in first), item]
        else:
            kernels.append(Kernel([*(items[n] for n in first), item]))
    return kernels


def _home(kernels: Sequence[Kernel], item: Item) -> Kernel | None:
    """Find the last kernel that writes an operand of a statement, if it may precede the kernels after it."""
    reads, writes = {buffer for buffer, _ in item.reads}, {buffer for buffer, _ in item.writes}
    for kernel in reversed(kernels):
        if not reads.isdisjoint(buffer for buffer, _ in kernel.writes):
            return kernel
        touched = (buffer for buffer, _ in (*kernel.reads, *kernel.writes))
        if may_fail(kernel.body) or not writes.isdisjoint(touched):
            return None
    return None


def _accumulated(item: Item) -> Iterator[Buffer]:
    for s in statements([item]):
        if isinstance(s, Accumulate) or (isinstance(s, MatMul) and s.add):
            yield s.buffer


def is_beginning(item: Item) -> bool:
    """Tell whether a nest only sets elements to a number."""
    return all(isinstance(s, Store) and isinstance(s.scalar, Number) for s in statements([item]))
