"""Structural hashing (hash consing): equal scalars have equal numbers, and so have kernels but for names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from catgrad.loops.ir.index import Atom, Either, Index, Quotient, Read, Variable
from catgrad.loops.ir.nest import Item, Kernel, Loop, Write
from catgrad.loops.ir.scalar import Bounds, Buffer, Compute, IndexValue, Load, Masked, Number, Scalar, Space
from catgrad.loops.memory_plan import Plan
from catgrad.ops.random import Draw
from catgrad.terms.op import Op


class Structure(ABC):
    """Number scalars by what they compute, given keys for variables and for what is loaded."""

    def __init__(self) -> None:
        self.numbers: dict[Hashable, int] = {}

    def number(self, key: Hashable) -> int:
        """Number a key; equal ones have equal numbers."""
        return self.numbers.setdefault(key, len(self.numbers))

    @abstractmethod
    def key(self, scalar: Scalar) -> int:
        """Number a scalar."""

    def variable_key(self, variable: Variable) -> Hashable:
        """Make a key for a loop variable."""
        return variable

    @abstractmethod
    def load_key(self, load: Load) -> Hashable:
        """Make a key for an element of a buffer."""

    def op_key(self, op: Op) -> Hashable:
        """Make a key for an operation."""
        return op

    def node_key(self, scalar: Scalar) -> Hashable:
        """Make a key for a scalar from the numbers of its operands."""
        if isinstance(scalar, Load):
            return "load", self.load_key(scalar)
        if isinstance(scalar, Number):
            return scalar.constant
        if isinstance(scalar, IndexValue):
            return "index", self.index_key(scalar.index), scalar.dtype
        operands = tuple(map(self.key, scalar.operands))
        if isinstance(scalar, Compute):
            return self.op_key(scalar.op), scalar.dtype, operands
        assert isinstance(scalar, Masked)  # the last kind there is
        return "masked", tuple(map(self.bounds_key, scalar.conditions)), operands

    def bounds_key(self, condition: Bounds) -> Hashable:
        """Make a key of a condition."""
        return self.index_key(condition.index), condition.size, condition.below, condition.above

    def index_key(self, index: Index) -> Hashable:
        """Make a key for an index."""
        return index.constant, *((self._atom_key(atom), factor) for atom, factor in index.terms)

    def _atom_key(self, atom: Atom) -> Hashable:
        if isinstance(atom, Variable):
            return self.variable_key(atom)
        if isinstance(atom, Read):
            return "read", self.key(atom.scalar)
        if isinstance(atom, Either):
            return "either", self.index_key(atom.first), self.index_key(atom.second)
        kind = "quotient" if isinstance(atom, Quotient) else "modulo"
        return kind, self.index_key(atom.index), atom.divisor


@dataclass(frozen=True)
class Stream:
    """A stream of random numbers."""

    number: int


class Signature(Structure):
    """Number the buffers, variables and random streams of a kernel in the order in which they occur.

    Kernels that differ by these alone are equal: streams are arguments, as buffers are.
    """

    def __init__(self, kernel: Kernel, plan: Plan) -> None:
        super().__init__()
        self.plan = plan
        self.given = {buffer for buffer, _ in (*kernel.reads, *kernel.writes)}
        self._order: dict[Any, int] = {}
        self._known: dict[int, int] = {}
        items = self._items(kernel.body)
        self.kernel_key: Hashable = items, tuple(self.numbers)

    @property
    def buffers(self) -> list[Buffer]:
        """The buffers, in the order in which they occur; not those that are literals."""
        return [thing for thing in self._order if isinstance(thing, Buffer)]

    @property
    def variables(self) -> list[Variable]:
        """The variables, in the order in which they occur."""
        return [thing for thing in self._order if isinstance(thing, Variable)]

    @property
    def streams(self) -> list[int]:
        """The streams that it draws from, in the order in which they occur."""
        return [thing.number for thing in self._order if isinstance(thing, Stream)]

    def has(self, buffer: Buffer) -> bool:
        """Tell whether a buffer occurs: addresses do not depend on every index, nor on what that reads."""
        return buffer.space is Space.LITERAL or self.twin(buffer) in self._order

    def key(self, scalar: Scalar) -> int:
        """Number a scalar."""
        if scalar.number not in self._known:
            self._known[scalar.number] = self.number(self.node_key(scalar))
        return self._known[scalar.number]

    def variable_key(self, variable: Variable) -> Hashable:
        """Make a key of the order and extent of a variable."""
        return self._ordered(variable), variable.extent, variable.step

    def op_key(self, op: Op) -> Hashable:
        """Make a key for an operation, in which a stream is its order; the shape drawn is no matter."""
        if not isinstance(op, Draw):
            return op
        return replace(op, shape=(), stream=None if op.stream is None else self._ordered(Stream(op.stream)))

    def load_key(self, load: Load) -> Hashable:
        """Make a key of the order of a buffer, and the offset in it."""
        return self._buffer(load.buffer), self.index_key(load.buffer.flat(load.indices))

    def _ordered(self, thing: Variable | Buffer | Stream) -> int:
        return self._order.setdefault(thing, len(self._order))

    def twin(self, buffer: Buffer) -> Buffer:
        """Return the buffer that another overwrites, if the kernel is called with both."""
        return buffer.home if buffer.home in self.given else buffer

    def _buffer(self, buffer: Buffer) -> Hashable:
        if buffer.space is Space.LITERAL:
            return "literal", buffer.type, buffer.elements
        local = buffer.is_of_kernel
        memory = (buffer.size, buffer.space, self.plan.scratch.get(buffer)) if local else None
        kind = buffer.type.dtype, local, bool(buffer.order), buffer.is_aligned, memory
        return self._ordered(self.twin(buffer)), *kind

    def _items(self, items: Sequence[Item]) -> Hashable:
        return tuple(map(self._item, items))

    def _item(self, item: Item) -> Hashable:
        if isinstance(item, Loop):
            conditions = tuple(map(self.bounds_key, item.conditions))
            kind = "loop", self.variable_key(item.variable), item.axis, item.threads, conditions
            return *kind, self._items(item.body)
        name, parts = type(item).__name__, {each.name: getattr(item, each.name) for each in fields(item)}
        if isinstance(item, Write):
            place = parts.pop("buffer").flat(parts.pop("indices"))
            return name, self._buffer(item.buffer), self.index_key(place), self._part(tuple(parts.values()))
        return name, self._part(tuple(parts.values()))

    def _part(self, part: Any) -> Hashable:
        """Make a key of what a statement has: scalars, variables, or values."""
        if isinstance(part, tuple):
            return tuple(map(self._part, part))
        if isinstance(part, Variable):
            return self.variable_key(part)
        return self.key(part) if isinstance(part, Scalar) else part
