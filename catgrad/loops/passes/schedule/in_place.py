"""In-place update: a topological order of steps in which old values are read before new ones are written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeGuard

from catgrad.loops.ir.index import Index, Variable, index, is_below
from catgrad.loops.ir.nest import (
    Indices,
    Item,
    Kernel,
    Loop,
    Store,
    copies_itself,
    may_fail,
    nested,
    statements,
)
from catgrad.loops.ir.scalar import Buffer, Load, Space
from catgrad.loops.ir.steps import For, Lowered, Step, kernels, replaced
from catgrad.loops.machine import Machine
from catgrad.loops.passes.schedule.order_steps import ordered


def put_in_place(lowered: Lowered, machine: Machine) -> Lowered:
    """Order the steps so that results may lie where arguments do; those that cannot are copied there last."""
    lowered = lowered.map_kernels(lambda kernel: Kernel(_old_values_first(kernel.body)))
    lowered = lowered.map(_in_order)  # also steps within loops and branches
    order, moved = _Order(lowered.steps), dict[Buffer, Buffer]()
    results = [_placed(order, result, moved) for result in lowered.results]
    return replace(lowered, steps=order.sorted(), results=results).replace_buffers(moved)


def _in_order(steps: list[Step]) -> list[Step]:
    return _Order([_rows_in_place(step) if isinstance(step, For) else step for step in steps]).sorted()


def _rows_in_place(loop: For) -> For:
    """Order the steps of a loop so that rows may lie where those that they replace do, or are copied."""
    order, rows, moved = _Order(loop.body), dict[Buffer, tuple[Buffer, ...]](), dict[Buffer, Buffer]()
    for row, arrays in loop.rows.items():
        rows[_placed(order, row, moved)] = arrays
    return replace(loop, body=replaced(order.sorted(), moved), rows=rows)


def _placed(order: _Order, result: Buffer, moved: dict[Buffer, Buffer]) -> Buffer:
    """Let a result overwrite what it replaces, or else `moved` be computed, which is copied there last."""
    if result.alias is None or order.take(result, result.alias):
        return result
    moved[result] = replace(result, name=f"next_{result.name}", space=Space.WORKSPACE, alias=None)
    return _copied_last(order, result)


def _old_values_first(items: Sequence[Item]) -> list[Item]:
    """Move what reads an old value before what overwrites it in the same block, if dependences allow."""
    inside = [replace(i, body=_old_values_first(i.body)) if isinstance(i, Loop) else i for i in items]
    written = [{buffer for buffer, _ in item.writes} for item in inside]
    read = [{buffer for buffer, _ in item.reads} for item in inside]
    if not any(buffer.alias in buffers for buffer in set().union(*written) for buffers in read):
        return inside
    after: dict[int, set[int]] = defaultdict(set)
    moves = False
    for later in range(len(inside)):
        for earlier in range(later):
            if written[earlier] & (read[later] | written[later]) or read[earlier] & written[later]:
                after[earlier].add(later)
            if any(buffer.alias in read[later] for buffer in written[earlier]):
                after[later].add(earlier)
                moves = True
    if not moves or may_fail(inside):
        return inside
    done = ordered(inside, after)
    return done if len(done) == len(inside) else inside  # fewer, if dependences are a cycle


class _Order:
    """Dependence graph: steps, and which of them must precede which."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = list(steps)
        self.after: dict[int, set[int]] = defaultdict(set)
        self.readers: dict[Buffer, list[int]] = defaultdict(list)
        self.writers: dict[Buffer, list[int]] = defaultdict(list)
        self.checks: list[int] = []
        for number, step in enumerate(self.steps):
            self._enter(number, step)

    def _enter(self, number: int, step: Step) -> None:
        reads = {array for array, _ in step.reads}
        for array in reads:
            for writer in self.writers[array]:
                self.after[writer].add(number)
            self.readers[array].append(number)
        for array in {array for array, _ in step.writes}:
            for before in (*self.writers[array], *self.readers[array]):
                if before != number:
                    self.after[before].add(number)
            self.writers[array].append(number)
        if any(may_fail(kernel.body) for kernel in kernels([step])):
            self.checks.append(number)

    def append(self, step: Step) -> None:
        """Add a step at the end."""
        self.steps.append(step)
        self._enter(len(self.steps) - 1, step)

    def take(self, result: Buffer, old: Buffer) -> bool:
        """Let a result overwrite an argument, if all readers of the argument can precede."""
        writers = set(self.writers[result])
        readers = [r for r in self.readers[old] if r not in writers]
        updating = [self.steps[w] for w in self.readers[old] if w in writers]
        if not _reads_first([self.steps[w] for w in sorted(writers)], updating, result, old):
            return False
        reached = self._reached(writers)
        if not reached.isdisjoint(readers):
            return False
        for before in (*readers, *(c for c in self.checks if c not in reached and c not in writers)):
            self.after[before] |= writers
        return True

    def _reached(self, start: set[int]) -> set[int]:
        reached: set[int] = set()
        stack = list(start)
        while stack:
            for later in self.after[stack.pop()]:
                if later not in reached:
                    reached.add(later)
                    stack.append(later)
        return reached

    def sorted(self) -> list[Step]:
        """The steps in a topological order."""
        return ordered(self.steps, self.after)


def _reads_first(writers: Sequence[Step], readers: Sequence[Step], result: Buffer, old: Buffer) -> bool:
    """Tell whether the writers of a result, of which some are readers of the old array, read an element of it
    before they write the new one.
    """
    if not all(_reads_old_first(step, result, old) for step in readers):
        return False
    if any(isinstance(step, For) for step in readers):
        return len(writers) == 1
    stores = [s for kernel in kernels(writers) for s in statements(kernel.body) if _stores(s, result)]
    changing = [s for s in stores if not copies_itself(s, old)] if readers else []
    return all(s is t or _are_apart(s.indices, t.indices) for s in changing for t in stores)


def _reads_old_first(step: Step, result: Buffer, old: Buffer) -> bool:
    """Tell whether a step reads elements of an array before it writes those of its replacement."""
    if isinstance(step, For):
        return all(row.alias in step.rows_of.get(old, ()) for row in step.rows_of.get(result, ()))
    return isinstance(step, Kernel) and _reads_where_it_stores(step.body, result, old)


def _reads_where_it_stores(
    items: Sequence[Item], result: Buffer, old: Buffer, later: Sequence[Indices] = ()
) -> bool:
    """Tell whether each read of the old array is one of an element that is stored then, or `later`."""
    for place, item in enumerate(items):
        stored = [*later, *(s.indices for s in items[place:] if _stores(s, result))]
        if isinstance(item, Loop):
            if not _reads_where_it_stores(item.body, result, old, stored):
                return False
        elif any(array is old and indices not in stored for array, indices in item.reads):
            return False
    return True


def _stores(item: Item, array: Buffer) -> TypeGuard[Store]:
    return isinstance(item, Store) and item.buffer is array


def _are_apart(some: Sequence[Index], others: Sequence[Index]) -> bool:
    """Prove that two ranges of indices have no element in common: they do not meet along some axis."""
    return any(_precedes(a, b) or _precedes(b, a) for a, b in zip(some, others, strict=True))


def _precedes(a: Index, b: Index) -> bool:
    return b.greatest is not None and is_below(a, b.constant)


def _copied_last(order: _Order, result: Buffer) -> Buffer:
    """Copy a result to the argument that it overwrites, after everything that reads the old value."""
    final, old = replace(result), result.alias
    variables = [Variable(size) for size in result.type.shape]
    at = tuple(map(index, variables))
    for copy in nested(variables, [Store(final, at, Load(result, at))]):
        order.append(Kernel([copy]))
    for reader in order.readers[old]:  # type: ignore[index]
        if reader != len(order.steps) - 1:
            order.after[reader].add(len(order.steps) - 1)
    return final
