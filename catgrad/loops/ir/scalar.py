"""Scalars: the value of one element, as a graph of operations on elements of buffers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from itertools import count

from catgrad.dims import Size, product
from catgrad.loops.ir.index import Either, Index, Modulo, Quotient, Read, Variable, combined
from catgrad.ops.cast import Cast
from catgrad.terms.op import Op
from catgrad.terms.structural import Constant
from catgrad.types import Dtype, NdArrayType

_NUMBERS = count()


class Space(Enum):
    """Address space of a buffer."""

    ARGUMENT = "argument"
    RESULT = "result"
    WORKSPACE = "workspace"
    """Memory that the caller of a function provides."""
    LITERAL = "literal"
    """Elements that stand in the source."""
    SHARED = "shared"
    """Memory of a team of threads."""
    LOCAL = "local"
    """Memory of one kernel, or of one thread of it."""
    REGISTER = "register"
    """A scalar variable of one kernel, without an address."""


OF_KERNEL = (Space.SHARED, Space.LOCAL, Space.REGISTER)
"""Address spaces that are private to one kernel."""


GLOBAL = (Space.ARGUMENT, Space.RESULT, Space.WORKSPACE)
"""Spaces of arrays in the memory that all threads of a GPU share."""


ROW_MAJOR: tuple[int, ...] = (-1,)
"""The default order of a buffer's axes."""


@dataclass(eq=False, frozen=True)
class Buffer:
    """An array in memory, compared by identity. Names are hints, which printers make unique.

    `order` has the axes that are stored, outermost first. A result with an `alias` lies in the memory of that
    argument. One that `is_aligned` begins at a multiple of 16 bytes.
    """

    name: str
    type: NdArrayType
    space: Space = Space.WORKSPACE
    order: tuple[int, ...] = ROW_MAJOR
    elements: tuple[str, ...] = ()
    alias: Buffer | None = None
    is_aligned: bool = True

    def __post_init__(self) -> None:
        if self.order == ROW_MAJOR:
            object.__setattr__(self, "order", tuple(range(self.type.rank)))

    @property
    def size(self) -> Size:
        """Count the elements along the axes that are stored."""
        return product(tuple(self.type.shape[axis] for axis in self.order))

    @property
    def is_row_major(self) -> bool:
        """Tell whether all axes are stored, in row-major order."""
        return self.order == tuple(range(self.type.rank))

    @property
    def is_register(self) -> bool:
        """Tell whether it is a scalar variable without an address."""
        return self.space is Space.REGISTER

    @property
    def is_of_kernel(self) -> bool:
        """Tell whether it is private to one kernel."""
        return self.space in OF_KERNEL

    @property
    def home(self) -> Buffer:
        """The buffer in whose memory it lies: the one it aliases, or itself."""
        return self.alias or self

    @cached_property
    def strides(self) -> list[tuple[int, Size]]:
        """The axes that are stored, innermost first, each with its stride."""
        found, stride = list[tuple[int, Size]](), 1
        for axis in reversed(self.order):
            found.append((axis, stride))
            stride = stride * self.type.shape[axis]  # type: ignore[assignment]
        return found

    def flat(self, indices: tuple[Index, ...]) -> Index:
        """Compute the offset of an element: Σ indexₐ · strideₐ."""
        return combined((indices[axis], stride) for axis, stride in self.strides)

    def stride(self, indices: tuple[Index, ...], variable: Variable) -> Size:
        """Compute the factor of a variable in the offset of an element."""
        if any(isinstance(atom, Modulo) for place in indices for atom, _ in place.terms):
            return self.flat(indices).coefficient(variable)  # a quotient may make it whole
        return sum(indices[axis].coefficient(variable) * stride for axis, stride in self.strides)


class Scalar:
    """A node of the graph. Nodes are compared by identity: equal nodes are made once."""

    operands: tuple[Scalar, ...] = ()
    dtype: Dtype

    def __post_init__(self) -> None:
        self.number = next(_NUMBERS)

    @cached_property
    def variables(self) -> frozenset[Variable]:
        """The loop variables it depends on."""
        return frozenset().union(*(o.variables for o in self.operands), self._own())

    def _own(self) -> Iterator[Variable]:
        return iter(())

    @cached_property
    def depth(self) -> int:
        """Height of the expression: the greatest number of nested operations."""
        return 1 + max((operand.depth for operand in self.operands), default=0)

    @property
    def always(self) -> tuple[Scalar, ...]:
        """The operands that are computed whenever it is, without masked ones."""
        return self.operands

    def loads(self) -> Iterator[Load]:
        """Every element it reads, each once."""
        return (node for node in self.nodes() if isinstance(node, Load))

    def nodes(self) -> Iterator[Scalar]:
        """Every scalar that it is made of, each once."""
        seen: set[int] = set()
        stack: list[Scalar] = [self]
        while stack:
            node = stack.pop()
            if node.number not in seen:
                seen.add(node.number)
                yield node
                stack.extend(node.operands)


@dataclass(eq=False)
class Load(Scalar):
    """An element of a stored array."""

    buffer: Buffer
    indices: tuple[Index, ...]

    @property
    def dtype(self) -> Dtype:  # type: ignore[override]
        """The dtype of the element."""
        return self.buffer.type.dtype

    def _own(self) -> Iterator[Variable]:
        return (v for index in self.indices for v in index.variables())

    @cached_property
    def operands(self) -> tuple[Scalar, ...]:  # type: ignore[override]
        """The scalars that its indices read."""
        return reads(self.indices)


@dataclass(eq=False)
class Compute(Scalar):
    """An operation on elements."""

    op: Op
    dtype: Dtype
    operands: tuple[Scalar, ...]


@dataclass(eq=False)
class Number(Scalar):
    """A number written down."""

    constant: Constant

    @property
    def dtype(self) -> Dtype:  # type: ignore[override]
        """The dtype of the number."""
        return self.constant.array_type.dtype


@dataclass(eq=False)
class IndexValue(Scalar):
    """An index, or a size, as a number."""

    index: Index
    dtype: Dtype

    def _own(self) -> Iterator[Variable]:
        return self.index.variables()

    @cached_property
    def operands(self) -> tuple[Scalar, ...]:  # type: ignore[override]
        """The scalars that its index reads."""
        return reads((self.index,))


@dataclass(frozen=True)
class Bounds:
    """The condition 0 ≤ index < size, of which only the sides marked `below` and `above` are tested."""

    index: Index
    size: Size
    below: bool
    above: bool


@dataclass(eq=False)
class Masked(Scalar):
    """One scalar where all conditions hold, computed only there; elsewhere another."""

    conditions: tuple[Bounds, ...]
    inside: Scalar
    outside: Scalar
    operands: tuple[Scalar, ...] = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.operands = (self.inside, self.outside, *reads(tuple(c.index for c in self.conditions)))

    @property
    def always(self) -> tuple[Scalar, ...]:
        """The scalars that its conditions read."""
        return self.operands[2:]

    @property
    def dtype(self) -> Dtype:  # type: ignore[override]
        """The dtype of the element."""
        return self.inside.dtype

    def _own(self) -> Iterator[Variable]:
        return (v for condition in self.conditions for v in condition.index.variables())


def reads(indices: tuple[Index, ...]) -> tuple[Scalar, ...]:
    """The scalars that indices read."""
    found: list[Scalar] = []
    for index in indices:
        for atom, _ in index.terms:
            if isinstance(atom, Read):
                found.append(atom.scalar)
            elif isinstance(atom, (Quotient, Modulo)):
                found.extend(reads((atom.index,)))
            elif isinstance(atom, Either):
                found.extend(reads((atom.first, atom.second)))
    return tuple(found)


def number(value: float, dtype: Dtype) -> Number:
    """A number of a dtype."""
    return Number(Constant(NdArrayType((), dtype), value))


def is_zero(scalar: Scalar) -> bool:
    """Tell whether it is the number 0."""
    return isinstance(scalar, Number) and scalar.constant.value == 0


def unmasked(scalar: Scalar) -> tuple[list[Bounds], Scalar]:
    """Return the conditions beyond which a scalar is 0, and what it is within."""
    conditions: list[Bounds] = []
    while isinstance(scalar, Masked) and is_zero(scalar.outside):
        conditions += scalar.conditions
        scalar = scalar.inside
    return conditions, scalar


def cast(scalar: Scalar, dtype: Dtype) -> Compute:
    """A scalar in another dtype."""
    return Compute(Cast(scalar.dtype, dtype), dtype, (scalar,))


def operands_of(kind: type[Op], scalar: Scalar) -> Iterator[Scalar]:
    """Yield the operands of nested operations of one kind, as the terms of a sum; else the scalar itself."""
    if isinstance(scalar, Compute) and isinstance(scalar.op, kind):
        for operand in scalar.operands:
            yield from operands_of(kind, operand)
    else:
        yield scalar


def converted(scalar: Scalar, dtype: Dtype) -> Scalar:
    """Cast a scalar unless it has the dtype already."""
    return scalar if scalar.dtype is dtype else cast(scalar, dtype)
