"""Loop nests: loops, and the statements in them that write elements of buffers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

from catgrad.dims import Dim, Size
from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.index import Atom, Index, Read, Variable, index
from catgrad.loops.ir.scalar import Bounds, Buffer, Compute, IndexValue, Load, Masked, Scalar, reads
from catgrad.terms.op import Op

Indices = tuple[Index, ...]
Access = tuple[Buffer, Indices]
Substitution = Mapping[Variable, Index]


class _Statement:
    """The elements that a statement reads and writes, and the scalars that it takes."""

    exchanges: ClassVar[bool] = False
    """Threads of a team exchange by it what each has in a register of its own."""

    @cached_property
    def reads(self: Any) -> list[Access]:
        """The elements read."""
        return [(load.buffer, load.indices) for scalar in scalars(self) for load in scalar.loads()]

    @property
    def writes(self) -> list[Access]:
        """The elements written."""
        return []

    @property
    def operands(self) -> list[Scalar]:
        """The scalars that it takes."""
        return [part for part in vars(self).values() if isinstance(part, Scalar)]

    def map(self, change: Rewriter) -> Self:
        """Rewrite its parts."""
        return self


@dataclass(eq=False)
class Write(_Statement):
    """A statement that writes buffer[indices]: most compute a scalar for it."""

    buffer: Buffer
    indices: Indices

    @property
    def writes(self) -> list[Access]:
        """The elements written."""
        return [(self.buffer, self.indices)]

    def map(self: Any, change: Rewriter) -> Any:
        """Rewrite its parts."""
        return self._with(change, scalar=change.scalar(self.scalar))

    def _with(self, change: Rewriter, **parts: Scalar) -> Self:
        """Rewrite where it writes, and replace other parts."""
        buffer, indices = change.buffer(self.buffer), change.indices(self.indices)
        return replace(self, buffer=buffer, indices=indices, **parts)


@dataclass(eq=False)
class Store(Write):
    """buffer[indices] = scalar."""

    scalar: Scalar


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


@dataclass(eq=False)
class Accumulate(Write):
    """buffer[indices] = buffer[indices] ∘ scalar, for an associative and commutative operation ∘."""

    op: Op
    scalar: Scalar

    @cached_property
    def reads(self) -> list[Access]:
        """The elements read, those accumulated into included."""
        return [*self.writes, *super().reads]


@dataclass(eq=False)
class Reduce(Write):
    """buffer[indices] = the reduction of a scalar by an operation over all values of its own variables.

    The operation is a sum or an extremum, which begins with its `identity`, or the index of an extremum along
    one axis. The order in which scalars are combined is left to the schedule.
    """

    op: Op
    scalar: Scalar
    axes: tuple[Variable, ...]
    identity: float = 0


@dataclass(eq=False)
class MatMul(Write):
    """The matrix product buffer = left · right over variables of its own; added if `add`.

    `rows`, `columns` and `depth` are those of each axis of the product: several if it is nested axes of an
    operand, as the windows of an image, the outermost first. The right operand may be `packed` elsewhere too.
    """

    left: Load
    right: Load
    rows: tuple[Variable, ...]
    columns: tuple[Variable, ...]
    depth: tuple[Variable, ...]
    add: bool = False
    packed: Load | None = None

    @cached_property
    def reads(self) -> list[Access]:
        """The elements read, those added to included."""
        return [*super().reads, *(self.writes if self.add else ())]

    def map(self, change: Rewriter) -> Self:
        """Rewrite its parts."""
        packed = {} if self.packed is None else {"packed": change.load(self.packed)}
        return self._with(change, left=change.load(self.left), right=change.load(self.right), **packed)


@dataclass(eq=False)
class Sort(Write):
    """A stable argsort: the positions along one axis, which `along` counts, of the elements in order."""

    keys: Load
    along: Variable
    descending: bool

    def map(self, change: Rewriter) -> Self:
        """Rewrite its parts."""
        return self._with(change, keys=change.load(self.keys))


@dataclass(eq=False)
class Check(_Statement):
    """A bounds check: the function fails here unless 0 ≤ scalar < size."""

    scalar: Scalar
    size: Size

    def map(self, change: Rewriter) -> Self:
        """Rewrite its parts."""
        return replace(self, scalar=change.scalar(self.scalar))


@dataclass(eq=False)
class Combine(Write):
    """Combine the registers of a team's threads by an operation: each thread gets the result."""

    op: Op
    exchanges = True

    @cached_property
    def reads(self) -> list[Access]:
        """The elements read."""
        return self.writes

    def map(self, change: Rewriter) -> Self:
        """Rewrite its parts."""
        return self._with(change)


@dataclass(eq=False)
class ReduceLanes(Reduce):
    """The same for registers of four neighbouring threads, which exchange them in a fixed tree."""


@dataclass(eq=False)
class Commit(_Statement):
    """The end of a group of asynchronous copies: those that a thread has begun since the last one."""


@dataclass(eq=False)
class Barrier(_Statement):
    """A point that no thread of a team passes before all have reached it.

    Before, each waits for its own groups of asynchronous copies, but for the last ones that may be `pending`.
    """

    pending: int | None = None


@dataclass(eq=False)
class Await(_Statement):
    """A point behind which warp groups have computed their products, but for the `pending` last ones.

    Of the tiles that they hold, they need the `done` first ones no more.
    """

    pending: int
    done: int = 0


class Body:
    """The elements that parts in order read and write."""

    body: list[Any]

    @property
    def reads(self) -> list[Access]:
        """The elements read within."""
        return [access for part in self.body for access in part.reads]

    @property
    def writes(self) -> list[Access]:
        """The elements written within."""
        return [access for part in self.body for access in part.writes]


@dataclass(eq=False)
class Loop(Body):
    """Items repeated for each value of a variable for which the conditions hold.

    One that `begins` starts a new nest: it is not fused with an earlier one. A team that runs an iteration
    has this number of `threads`. What is in a loop does not change: passes ask for it again and again.
    """

    variable: Variable
    body: list[Item]
    begins: bool = False
    axis: Axis = Axis.SERIAL
    conditions: tuple[Bounds, ...] = ()
    threads: int = 1

    @property
    def own_reads(self) -> list[Access]:
        """The elements read by the conditions."""
        read = reads(tuple(c.index for c in self.conditions))
        return [(load.buffer, load.indices) for scalar in read for load in scalar.loads()]

    @cached_property
    def reads(self) -> list[Access]:
        """The elements read within, and by the conditions."""
        return [*self.own_reads, *super().reads]

    @cached_property
    def writes(self) -> list[Access]:
        """The elements written within."""
        return super().writes

    @cached_property
    def statements(self) -> list[Statement]:
        """The statements within, in order."""
        return [*statements(self.body)]

    @cached_property
    def variables(self) -> set[Variable]:
        """The variables that it and what is within run over."""
        return {self.variable, *bound_variables(self.body)}


@dataclass(eq=False)
class Kernel(Body):
    """Nests that run one after the other."""

    body: list[Item]


Statement = Store | Accumulate | Reduce | MatMul | Sort | Check | Combine | Commit | Barrier | Await
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


def perfect_nest(
    items: Sequence[Item], belongs: Callable[[Loop], bool] = lambda loop: True
) -> tuple[list[Variable], list[Item]]:
    """Return the variables of the loops of a perfect nest that belong to it, and the items within."""
    variables, body = list[Variable](), [*items]
    while len(body) == 1 and isinstance(body[0], Loop) and belongs(body[0]):
        variables.append(body[0].variable)
        body = body[0].body
    return variables, body


def copies_itself(statement: Statement, old: Buffer) -> bool:
    """Tell whether a statement stores an element of the array `old` at the same place of another array."""
    return (
        isinstance(statement, Store)
        and isinstance(statement.scalar, Load)
        and statement.scalar.buffer is old
        and statement.scalar.indices == statement.indices
    )


def statements(items: Sequence[Item]) -> Iterator[Statement]:
    """All statements, in order."""
    for item in items:
        if isinstance(item, Loop):
            yield from item.statements
        else:
            yield item


def scalars(s: Statement) -> list[Scalar]:
    """List the scalars that a statement computes: its value or operands, and those that its indices read."""
    return [*s.operands, *reads(s.indices)] if isinstance(s, Write) else s.operands


def own_variables(s: Statement) -> tuple[Variable, ...]:
    """The variables that a statement itself runs over."""
    if isinstance(s, MatMul):
        return *s.rows, *s.columns, *s.depth
    if isinstance(s, Sort):
        return (s.along,)
    return s.axes if isinstance(s, Reduce) else ()


def bound_variables(items: Sequence[Item]) -> set[Variable]:
    """Find the variables that loops and statements among items run over."""
    return set().union(*(i.variables if isinstance(i, Loop) else own_variables(i) for i in items))


def rewritten(items: Sequence[Item], change: Rewriter) -> list[Item]:
    """Rewrite the parts of all statements; loops keep their variables."""
    return [
        replace(
            item, body=rewritten(item.body, change), conditions=tuple(map(change.bounds, item.conditions))
        )
        if isinstance(item, Loop)
        else item.map(change)
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

    def bounds(self, condition: Bounds) -> Bounds:
        """Rewrite a condition."""
        return replace(condition, index=self.index(condition.index))

    def index(self, old: Index) -> Index:
        """Rewrite an index."""
        return old.replaced(self._atom) if old.terms else old

    def _atom(self, atom: Atom) -> Index | None:
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
            return Masked(
                tuple(map(self.bounds, old.conditions)), self.scalar(old.inside), self.scalar(old.outside)
            )
        return old


class Substituted(Rewriter):
    """Substitute indices for variables; scalars that do not depend on them stay the same."""

    def __init__(self, values: Substitution) -> None:
        super().__init__()
        self.values = values

    def scalar(self, scalar: Scalar) -> Scalar:
        """Rewrite a scalar."""
        return scalar if self.values.keys().isdisjoint(scalar.variables) else super().scalar(scalar)

    def _atom(self, atom: Atom) -> Index | None:
        return self.values.get(atom) if isinstance(atom, Variable) else super()._atom(atom)


class Replaced(Rewriter):
    """Replace buffers by others."""

    def __init__(self, buffers: Mapping[Buffer, Buffer]) -> None:
        super().__init__()
        self.buffers = buffers

    def buffer(self, buffer: Buffer) -> Buffer:
        """Replace a buffer."""
        return self.buffers.get(buffer, buffer)
