"""Loop nests: loops, and the statements in them that write elements of buffers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property

from catgrad.dims import Dim, Size
from catgrad.loops.ir.index import Index, Modulo, Quotient, Read, Variable, index
from catgrad.loops.ir.scalar import Buffer, Compute, IndexValue, Load, Masked, Scalar, reads
from catgrad.terms.op import Op

Indices = tuple[Index, ...]
Access = tuple[Buffer, Indices]
Substitution = Mapping[Variable, Index]


class Axis(Enum):
    """Kinds of loops: sequential, parallel or vectorised."""

    SERIAL = "serial"
    PARALLEL = "parallel"
    """Iterations are distributed among threads."""
    VECTOR = "vector"
    """Several iterations run at once, in the lanes of vectors; sums over them are reassociated."""


@dataclass(eq=False)
class Store:
    """buffer[indices] = scalar."""

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

    def map(self, change: Rewriter) -> Store:
        """Rewrite its parts."""
        return Store(change.buffer(self.buffer), change.indices(self.indices), change.scalar(self.scalar))


@dataclass(eq=False)
class Let(Store):
    """The one definition of a register: an abbreviation of a scalar from here to the end of the block.

    Each iteration of the loops around it has its own (privatisation): it carries no dependence between them.
    """

    hoisted: bool = False
    """True if it was moved out of the loop that follows."""

    @property
    def writes(self) -> list[Access]:
        """Nothing: a register is not visible to other iterations."""
        return []

    def map(self, change: Rewriter) -> Let:
        """Rewrite its parts."""
        return replace(self, buffer=change.buffer(self.buffer), scalar=change.scalar(self.scalar))


@dataclass(eq=False)
class Accumulate:
    """buffer[indices] = buffer[indices] ∘ scalar, for an associative and commutative operation ∘."""

    buffer: Buffer
    indices: Indices
    op: Op
    scalar: Scalar

    @cached_property
    def reads(self) -> list[Access]:
        """The elements read, those accumulated into included."""
        return [(self.buffer, self.indices), *_accesses([self.scalar], self.indices)]

    @property
    def writes(self) -> list[Access]:
        """The elements written."""
        return [(self.buffer, self.indices)]

    def map(self, change: Rewriter) -> Accumulate:
        """Rewrite its parts."""
        buffer, indices = change.buffer(self.buffer), change.indices(self.indices)
        return Accumulate(buffer, indices, self.op, change.scalar(self.scalar))


@dataclass(eq=False)
class Reduce:
    """buffer[indices] = the reduction of a scalar by an operation over all values of its own variables.

    The operation is a sum or an extremum, which begins with its `identity`, or the index of an extremum along
    one axis. The order in which scalars are combined is left to the schedule.
    """

    buffer: Buffer
    indices: Indices
    op: Op
    scalar: Scalar
    axes: tuple[Variable, ...]
    identity: float = 0

    @cached_property
    def reads(self) -> list[Access]:
        """The elements read."""
        return _accesses([self.scalar], self.indices)

    @property
    def writes(self) -> list[Access]:
        """The elements written."""
        return [(self.buffer, self.indices)]

    def map(self, change: Rewriter) -> Reduce:
        """Rewrite its parts."""
        buffer, indices = change.buffer(self.buffer), change.indices(self.indices)
        return Reduce(buffer, indices, self.op, change.scalar(self.scalar), self.axes, self.identity)


@dataclass(eq=False)
class MatMul:
    """The matrix product buffer = left · right over variables m, n and k of its own; added if `add`."""

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

    def map(self, change: Rewriter) -> MatMul:
        """Rewrite its parts."""
        left, right = change.load(self.left), change.load(self.right)
        buffer, indices = change.buffer(self.buffer), change.indices(self.indices)
        return MatMul(buffer, indices, left, right, self.m, self.n, self.k, self.add)


@dataclass(eq=False)
class Sort:
    """A stable argsort: the positions along one axis, which `along` counts, of the elements in order."""

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

    def map(self, change: Rewriter) -> Sort:
        """Rewrite its parts."""
        buffer, indices = change.buffer(self.buffer), change.indices(self.indices)
        return Sort(buffer, indices, change.load(self.keys), self.along, self.descending)


@dataclass(eq=False)
class Check:
    """A bounds check: the function fails here unless 0 ≤ scalar < size."""

    scalar: Scalar
    size: Size

    @cached_property
    def reads(self) -> list[Access]:
        """The elements read."""
        return _accesses([self.scalar], ())

    writes: list[Access] = field(default_factory=list, init=False)

    def map(self, change: Rewriter) -> Check:
        """Rewrite its parts."""
        return Check(change.scalar(self.scalar), self.size)


@dataclass(eq=False)
class Loop:
    """Items repeated for each value of a variable.

    One that `begins` starts a new nest: it is not fused with an earlier one.
    """

    variable: Variable
    body: list[Item]
    begins: bool = False
    axis: Axis = Axis.SERIAL

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


Statement = Store | Accumulate | Reduce | MatMul | Sort | Check
Item = Loop | Statement


def nested(variables: Sequence[Variable], body: list[Item]) -> list[Item]:
    """Nest items in loops over these variables, the first outermost; one with a single value needs none.

    Loops over an axis without elements are left out: indices into empty arrays prove nothing.
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
    """List the scalars that a statement computes: those that its indices read, and its value."""
    if isinstance(s, Check):
        return [s.scalar]
    own = (s.left, s.right) if isinstance(s, MatMul) else (s.keys if isinstance(s, Sort) else s.scalar,)
    return [*reads(s.indices), *own]


def own_variables(s: Statement) -> tuple[Variable, ...]:
    """The variables that a statement itself runs over."""
    if isinstance(s, MatMul):
        return s.m, s.n, s.k
    if isinstance(s, Sort):
        return (s.along,)
    return s.axes if isinstance(s, Reduce) else ()


def rewritten(items: Sequence[Item], change: Rewriter) -> list[Item]:
    """Rewrite the parts of all statements; loops keep their variables."""
    return [
        replace(item, body=rewritten(item.body, change)) if isinstance(item, Loop) else item.map(change)
        for item in items
    ]


def substituted(item: Item, values: Substitution) -> Item:
    """Substitute indices for variables; loops keep theirs."""
    return rewritten([item], Substituted(values))[0] if values else item


def loops(items: Sequence[Item]) -> Iterator[Loop]:
    """All loops, each before those within it."""
    for item in items:
        if isinstance(item, Loop):
            yield item
            yield from loops(item.body)


def may_fail(items: Sequence[Item]) -> bool:
    """Tell whether there is a bounds check among items."""
    return any(isinstance(s, Check) for s in statements(items))


def size_hint(size: Size) -> int:
    """Estimate a size with 64 for each symbol: for heuristics, which are correct with any outcome."""
    return sum(c * 64 ** len(monomial) for monomial, c in size.terms) if isinstance(size, Dim) else size


class Rewriter:
    """Rewrite scalars, indices and buffers bottom up; each scalar is rewritten once."""

    def __init__(self) -> None:
        self._done: dict[int, Scalar] = {}

    def buffer(self, buffer: Buffer) -> Buffer:
        """Rewrite a buffer."""
        return buffer

    def scalar(self, scalar: Scalar) -> Scalar:
        """Rewrite a scalar."""
        if scalar.number not in self._done:
            self._done[scalar.number] = self._changed(scalar)
        return self._done[scalar.number]

    def load(self, load: Load) -> Load:
        """Rewrite the operand of a statement that is called with addresses."""
        return Load(self.buffer(load.buffer), self.indices(load.indices))

    def indices(self, indices: Indices) -> Indices:
        """Rewrite indices."""
        return tuple(map(self.index, indices))

    def index(self, old: Index) -> Index:
        """Rewrite an index."""
        return old.replaced(self._atom) if old.terms else old

    def _atom(self, atom: Variable | Quotient | Modulo | Read) -> Index | None:
        return index(Read(self.scalar(atom.scalar), atom.extent)) if isinstance(atom, Read) else None

    def _changed(self, old: Scalar) -> Scalar:
        if isinstance(old, Load):
            buffer, indices = self.buffer(old.buffer), self.indices(old.indices)
            same = buffer is old.buffer and indices == old.indices
            return old if same else Load(buffer, indices)
        if isinstance(old, Compute):
            operands = tuple(map(self.scalar, old.operands))
            return old if operands == old.operands else Compute(old.op, old.dtype, operands)
        if isinstance(old, IndexValue):
            return IndexValue(self.index(old.index), old.dtype)
        if isinstance(old, Masked):
            conditions = tuple(replace(c, index=self.index(c.index)) for c in old.conditions)
            return Masked(conditions, self.scalar(old.inside), self.scalar(old.outside))
        return old


class Substituted(Rewriter):
    """Substitute indices for variables; scalars that do not depend on them stay the same."""

    def __init__(self, values: Substitution) -> None:
        super().__init__()
        self.values = values

    def scalar(self, scalar: Scalar) -> Scalar:
        """Rewrite a scalar."""
        return scalar if self.values.keys().isdisjoint(scalar.variables) else super().scalar(scalar)

    def _atom(self, atom: Variable | Quotient | Modulo | Read) -> Index | None:
        return self.values.get(atom) if isinstance(atom, Variable) else super()._atom(atom)


class Replaced(Rewriter):
    """Replace buffers by others."""

    def __init__(self, buffers: Mapping[Buffer, Buffer]) -> None:
        super().__init__()
        self.buffers = buffers

    def buffer(self, buffer: Buffer) -> Buffer:
        """Replace a buffer."""
        return self.buffers.get(buffer, buffer)


def _accesses(scalars: Sequence[Scalar], indices: Indices) -> list[Access]:
    return [(load.buffer, load.indices) for scalar in (*scalars, *reads(indices)) for load in scalar.loads()]
