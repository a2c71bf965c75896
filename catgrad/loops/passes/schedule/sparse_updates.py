"""Sparse updates: a table of which few rows have a gradient, as an embedding's, changes in these rows only.

The gradient d is zero but where a scatter adds to it. So only the elements that it adds to are set to zero
before, and only there w - c · d is computed, after which d is zero again: what several terms add to changes
once. Numbers are those of an update of the whole table, bit for bit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from math import copysign, isfinite

from catgrad.dims import product
from catgrad.loops.ir.index import Read, Variable, index
from catgrad.loops.ir.nest import (
    Accumulate,
    Item,
    Kernel,
    Loop,
    Statement,
    Store,
    Substituted,
    loops,
    nested,
    perfect_nest,
    size_hint,
    statements,
)
from catgrad.loops.ir.scalar import Buffer, Compute, Load, Number, Scalar, Space, number, reads
from catgrad.loops.ir.steps import Lowered, Step, every_step
from catgrad.loops.machine import Machine
from catgrad.ops.arithmetic import Add, Multiply, Subtract

ELEMENTS_PER_TERM = 4
"""Elements of a table for each term that is added to its gradient, at least."""


def update_sparsely(lowered: Lowered, machine: Machine) -> Lowered:
    """Clear a gradient, and update its table, only in the rows to which terms were added."""
    changes: dict[Item, list[Item]] = {}
    written = {buffer.home for step in lowered.steps for buffer, _ in step.writes}
    for gradient, parts in _parts(lowered.steps).items():
        if gradient.space is Space.WORKSPACE and (update := _sparse(gradient, parts, written)):
            update.write(changes)
    if not changes:
        return lowered
    return lowered.map(lambda steps: [new for step in steps for new in _changed(step, changes)])


def _changed(step: Step, changes: dict[Item, list[Item]]) -> list[Step]:
    if not isinstance(step, Kernel) or changes.keys().isdisjoint(step.body):
        return [step]
    body = [new for item in step.body for new in changes.get(item, [item])]
    return [Kernel(body)] if body else []


_Part = tuple[Item, Statement]
"""A nest, and the statement in it that uses a buffer."""


def _parts(steps: Sequence[Step]) -> dict[Buffer, list[_Part]]:
    """Find what uses each buffer; not those that loops, branches, conditions or library calls use."""
    parts, others, outermost = defaultdict[Buffer, list[_Part]](list), set[Buffer](), set(steps)
    for step in every_step(steps):
        if not isinstance(step, Kernel) or step not in outermost:
            others.update(buffer for buffer, _ in (*step.reads, *step.writes))
            continue
        for item in step.body:
            if any(loop.conditions for loop in loops([item])):
                others.update(buffer for buffer, _ in (*item.reads, *item.writes))
            for s in statements([item]):
                for buffer in {buffer for buffer, _ in (*s.reads, *s.writes)}:
                    parts[buffer].append((item, s))
    return {buffer: found for buffer, found in parts.items() if buffer not in others}


@dataclass(frozen=True)
class _Sparse:
    """The nests of a gradient's zeros, of the terms that are added to it, and of an update by it."""

    zeros: Item
    terms: Item
    update: Item
    store: Store
    rows: tuple[Variable, ...]
    term: Accumulate
    variables: tuple[Variable, ...]

    def write(self, changes: dict[Item, list[Item]]) -> None:
        """Replace the three nests."""
        changes[self.zeros] = []
        changes[self.terms] = [*self._where_added(update=False), *changes.get(self.terms, [self.terms])]
        changes[self.update] = self._where_added(update=True)

    def _where_added(self, update: bool) -> list[Item]:
        """Loop over the elements that terms are added to: update them if so, and set the gradient to zero."""
        fresh = [replace(v) for v in self.variables]
        values = dict(zip(self.variables, map(index, fresh), strict=True))
        at = Substituted(values).indices(self.term.indices)
        zero = Store(self.term.buffer, at, number(0, self.term.buffer.type.dtype))
        element = Substituted(dict(zip(self.rows, at, strict=True)))
        return nested(fresh, [*([self.store.map(element)] if update else []), zero])


def _sparse(gradient: Buffer, parts: Sequence[_Part], written: Collection[Buffer]) -> _Sparse | None:
    """Recognise a gradient that begins with zeros, is the sum of a few terms, and is read by an update."""
    if len(parts) != 3:
        return None
    (zeros, first), (terms, term), (update, last) = parts
    if not (isinstance(first, Store) and isinstance(term, Accumulate) and isinstance(last, Store)):
        return None
    rows, at = _all_elements(update, last), _all_elements(zeros, first)
    if rows is None or at is None or not _is_zero(first.scalar) or not _is_update(last, gradient):
        return None
    variables = tuple(_around(terms, term))
    count = size_hint(product(tuple(v.extent for v in variables)))
    if not _is_scatter(term, written) or count * ELEMENTS_PER_TERM > size_hint(gradient.size):
        return None
    return _Sparse(zeros, terms, update, last, rows, term, variables)


def _is_zero(scalar: Scalar) -> bool:
    """Recognise 0, but not -0, by which an update makes -0 to 0."""
    return (
        isinstance(scalar, Number) and scalar.constant.value == 0 and copysign(1, scalar.constant.value) > 0
    )


def _all_elements(item: Item, s: Store) -> tuple[Variable, ...] | None:
    """Return the variable of each axis, if a nest has one store to all elements of an array."""
    variables, body = perfect_nest([item])
    own = tuple(i.variable for i in s.indices)
    shape = tuple(v.extent for v in own if v)
    if body != [s] or None in own or shape != s.buffer.type.shape or {*own} != {*variables}:
        return None
    return tuple(v for v in own if v) if len(own) == len(variables) else None


def _is_update(s: Store, gradient: Buffer) -> bool:
    """Recognise w - c · d in place, for a positive number c: it is w, to the bit, where d is 0."""
    scalar = s.scalar
    if not (isinstance(scalar, Compute) and isinstance(scalar.op, Subtract) and s.buffer.alias):
        return False
    old, scaled = scalar.operands
    if not (_is_element(old, s, s.buffer.alias) and isinstance(scaled, Compute)):
        return False
    factors = [x for x in scaled.operands if isinstance(x, Number)]
    others = [x for x in scaled.operands if not isinstance(x, Number)]
    is_product = isinstance(scaled.op, Multiply) and len(factors) == len(others) == 1
    return (
        is_product
        and _is_element(others[0], s, gradient)
        and factors[0].constant.value > 0
        and isfinite(factors[0].constant.value)
    )


def _is_element(scalar: Scalar, s: Store, buffer: Buffer) -> bool:
    """Tell whether a scalar is the element of a buffer that a statement stores in another."""
    return isinstance(scalar, Load) and scalar.buffer is buffer and scalar.indices == s.indices


def _is_scatter(term: Accumulate, written: Collection[Buffer]) -> bool:
    """Recognise a sum into elements that integers of arguments name, which nothing overwrites."""
    atoms = [atom for i in term.indices for atom, _ in i.terms]
    loads = [load for scalar in reads(term.indices) for load in scalar.loads()]
    are_plain = all(isinstance(atom, Variable | Read) for atom in atoms)
    given = (load.buffer.space is Space.ARGUMENT and load.buffer not in written for load in loads)
    are_arguments = bool(loads) and all(given)
    return isinstance(term.op, Add) and are_plain and are_arguments


def _around(item: Item, s: Statement) -> Iterator[Variable]:
    """Yield the variables of the loops of a nest that are around a statement, the outermost first."""
    while isinstance(item, Loop):
        yield item.variable
        item = next(x for x in item.body if x is s or (isinstance(x, Loop) and s in x.statements))
