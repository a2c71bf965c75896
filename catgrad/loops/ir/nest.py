"""Loop nests: loops, and the statements in them that write elements of stored arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from catgrad.dims import Dim, Size, numbers
from catgrad.loops.ir.index import Index, Modulo, Quotient, Read, Variable, index
from catgrad.loops.ir.scalar import Buffer, Compute, IndexValue, Load, Masked, Scalar, reads
from catgrad.terms.op import Op

Indices = tuple[Index, ...]
Access = tuple[Buffer, Indices]
Substitution = Mapping[Variable, Index]


@dataclass(eq=False)
class Store:
    """array[indices] = scalar."""

    buffer: Buffer
    indices: Indices
    scalar: Scalar

    @cached_property
    def reads(self) -> list[Access]:
        """The elements read."""
        return _accesses([self.scalar], self.indices)

    @property
    def writes(self) -> list[Access]:
        """The elements written."""
        return [(self.buffer, self.indices)]

    def substitute(self, values: Substitution) -> Store:
        """With indices for variables."""
        change = Substituted(values)
        return Store(self.buffer, change.indices(self.indices), change.scalar(self.scalar))


@dataclass(eq=False)
class Accumulate:
    """array[indices] = array[indices] ∘ scalar, for an operation ∘ of which any order gives the same."""

    buffer: Buffer
    indices: Indices
    op: Op
    scalar: Scalar

    @cached_property
    def reads(self) -> list[Access]:
        """The elements read, those updated included."""
        return [(self.buffer, self.indices), *_accesses([self.scalar], self.indices)]

    @property
    def writes(self) -> list[Access]:
        """The elements written."""
        return [(self.buffer, self.indices)]

    def substitute(self, values: Substitution) -> Accumulate:
        """With indices for variables."""
        change = Substituted(values)
        return Accumulate(self.buffer, change.indices(self.indices), self.op, change.scalar(self.scalar))


@dataclass(eq=False)
class MatMul:
    """The matrix product array = left · right over variables m, n and k of its own; added if `add`."""

    buffer: Buffer
    indices: Indices
    left: Load
    right: Load
    m: Variable
    n: Variable
    k: Variable
    add: bool = False

    @cached_property
    def reads(self) -> list[Access]:
        """The elements read."""
        loads = [(load.buffer, load.indices) for load in (self.left, self.right)]
        return [*loads, (self.buffer, self.indices)] if self.add else loads

    @property
    def writes(self) -> list[Access]:
        """The elements written."""
        return [(self.buffer, self.indices)]

    def substitute(self, values: Substitution) -> MatMul:
        """With indices for variables."""
        change = Substituted(values)
        left, right = change.scalar(self.left), change.scalar(self.right)
        indices = change.indices(self.indices)
        return MatMul(self.buffer, indices, left, right, self.m, self.n, self.k, self.add)  # type: ignore[arg-type]


@dataclass(eq=False)
class Sort:
    """The places of the elements along one axis in order, which `along` counts."""

    buffer: Buffer
    indices: Indices
    keys: Load
    along: Variable
    descending: bool

    @property
    def reads(self) -> list[Access]:
        """The elements read."""
        return [(self.keys.buffer, self.keys.indices)]

    @property
    def writes(self) -> list[Access]:
        """The elements written."""
        return [(self.buffer, self.indices)]

    def substitute(self, values: Substitution) -> Sort:
        """With indices for variables."""
        change = Substituted(values)
        keys = change.scalar(self.keys)
        return Sort(self.buffer, change.indices(self.indices), keys, self.along, self.descending)  # type: ignore[arg-type]


@dataclass(eq=False)
class Check:
    """The function fails here unless 0 ≤ scalar < size."""

    scalar: Scalar
    size: Size

    @cached_property
    def reads(self) -> list[Access]:
        """The elements read."""
        return _accesses([self.scalar], ())

    writes: list[Access] = field(default_factory=list, init=False)

    def substitute(self, values: Substitution) -> Check:
        """With indices for variables."""
        return Check(Substituted(values).scalar(self.scalar), self.size)


@dataclass(eq=False)
class Loop:
    """Items repeated for each value of a variable; one that `begins` is not to join an earlier nest."""

    variable: Variable
    body: list[Item]
    begins: bool = False

    @property
    def reads(self) -> list[Access]:
        """The elements read within."""
        return [access for item in self.body for access in item.reads]

    @property
    def writes(self) -> list[Access]:
        """The elements written within."""
        return [access for item in self.body for access in item.writes]


@dataclass(eq=False)
class Kernel:
    """Nests that run one after the other."""

    body: list[Item]

    @property
    def reads(self) -> list[Access]:
        """The elements read within."""
        return [access for item in self.body for access in item.reads]

    @property
    def writes(self) -> list[Access]:
        """The elements written within."""
        return [access for item in self.body for access in item.writes]


Statement = Store | Accumulate | MatMul | Sort | Check
Item = Loop | Statement


def nested(variables: Sequence[Variable], body: list[Item]) -> list[Item]:
    """Nest items in loops over these variables, the first outermost; one with a single value needs none.

    Loops over an axis without elements are left out: indices into such arrays say nothing of where they are.
    """
    if any(variable.extent == 0 for variable in variables):
        return []
    for variable in reversed(variables):
        if variable.extent != 1:
            body = [Loop(variable, body)]
    return body


def statements(items: Sequence[Item]) -> Iterator[Statement]:
    """All statements, in order."""
    for item in items:
        if isinstance(item, Loop):
            yield from statements(item.body)
        else:
            yield item


def scalars(s: Statement) -> list[Scalar]:
    """List the scalars that a statement computes: those its indices read, and its own."""
    if isinstance(s, Check):
        return [s.scalar]
    own = (s.left, s.right) if isinstance(s, MatMul) else (s.keys if isinstance(s, Sort) else s.scalar,)
    return [*reads(s.indices), *own]


def substituted(item: Item, values: Substitution) -> Item:
    """An item with indices for variables; loops keep theirs."""
    if not values:
        return item
    if isinstance(item, Loop):
        return Loop(item.variable, [substituted(each, values) for each in item.body])
    return item.substitute(values)


def loops(items: Sequence[Item]) -> Iterator[Loop]:
    """All loops, each before those within it."""
    for item in items:
        if isinstance(item, Loop):
            yield item
            yield from loops(item.body)


def may_fail(items: Sequence[Item]) -> bool:
    """Whether there is a check among items, which ends the function if it does not hold."""
    return any(isinstance(s, Check) for s in statements(items))


def size_hint(size: Size) -> int:
    """A size, if each symbol is 64: what decisions rest on that any outcome leaves right."""
    if isinstance(size, Dim):
        (size,) = numbers((size.substitute(dict.fromkeys(size.symbols, 64)),))
    return size


class Rewritten:
    """Scalars and indices in which some parts are others; each is rewritten once."""

    def __init__(self) -> None:
        self._done: dict[int, Scalar] = {}

    def items(self, items: Sequence[Item]) -> list[Item]:
        """Rewrite every statement, those in loops included."""
        return [
            replace(each, body=self.items(each.body)) if isinstance(each, Loop) else self.statement(each)
            for each in items
        ]

    def statement(self, s: Statement) -> Statement:
        """Rewrite what a statement computes, and where it reads and writes."""
        if isinstance(s, Check):
            return Check(self.scalar(s.scalar), s.size)
        indices = self.indices(s.indices)
        if isinstance(s, MatMul):
            return replace(s, indices=indices, left=self.scalar(s.left), right=self.scalar(s.right))  # type: ignore[arg-type]
        if isinstance(s, Sort):
            return replace(s, indices=indices, keys=self.scalar(s.keys))  # type: ignore[arg-type]
        return replace(s, indices=indices, scalar=self.scalar(s.scalar))

    def scalar(self, scalar: Scalar) -> Scalar:
        """The scalar rewritten."""
        if scalar.number not in self._done:
            self._done[scalar.number] = self._changed(scalar)
        return self._done[scalar.number]

    def indices(self, indices: Indices) -> Indices:
        """The indices rewritten."""
        return tuple(map(self.index, indices))

    def index(self, old: Index) -> Index:
        """The index rewritten."""
        return old.replaced(self._atom) if old.terms else old

    def _atom(self, atom: Variable | Quotient | Modulo | Read) -> Index | None:
        return index(Read(self.scalar(atom.scalar), atom.extent)) if isinstance(atom, Read) else None

    def _changed(self, old: Scalar) -> Scalar:
        if isinstance(old, Load):
            return Load(old.buffer, self.indices(old.indices))
        if isinstance(old, Compute):
            return Compute(old.op, old.dtype, tuple(map(self.scalar, old.operands)))
        if isinstance(old, IndexValue):
            return IndexValue(self.index(old.index), old.dtype)
        if isinstance(old, Masked):
            conditions = tuple(replace(c, index=self.index(c.index)) for c in old.conditions)
            return Masked(conditions, self.scalar(old.inside), self.scalar(old.outside))
        return old


class Substituted(Rewritten):
    """Scalars and indices with other indices for variables; what does not depend on them stays the same."""

    def __init__(self, values: Substitution) -> None:
        super().__init__()
        self.values = values

    def scalar(self, scalar: Scalar) -> Scalar:
        """The scalar with other indices."""
        return scalar if self.values.keys().isdisjoint(scalar.variables) else super().scalar(scalar)

    def _atom(self, atom: Variable | Quotient | Modulo | Read) -> Index | None:
        return self.values.get(atom) if isinstance(atom, Variable) else super()._atom(atom)


def _accesses(scalars: Sequence[Scalar], indices: Indices) -> list[Access]:
    return [(load.buffer, load.indices) for scalar in (*scalars, *reads(indices)) for load in scalar.loads()]
