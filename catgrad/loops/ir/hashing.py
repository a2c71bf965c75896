"""Structural hashing of kernels: two are one if they differ only in their arrays, or the names of these."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from catgrad.loops.ir.index import Index, Quotient, Read, Variable
from catgrad.loops.ir.nest import Accumulate, Check, Item, Kernel, Loop, MatMul, Reduce, Sort, Store
from catgrad.loops.ir.scalar import Buffer, Compute, IndexValue, Load, Masked, Number, Scalar, Space
from catgrad.loops.memory_plan import Plan, is_local


class Signature:
    """Numbers for the arrays, variables and scalars of a kernel, in the order in which they occur."""

    def __init__(self, kernel: Kernel, plan: Plan) -> None:
        self.plan = plan
        self.given = {array for array, _ in (*kernel.reads, *kernel.writes)}
        self._numbers: dict[Any, int] = {}
        self._scalars: dict[Hashable, int] = {}
        self._known: dict[int, int] = {}
        items = self._items(kernel.body)
        self.key: Hashable = items, tuple(self._scalars)

    @property
    def arrays(self) -> list[Buffer]:
        """The arrays, in the order in which they occur; not those that are literals."""
        return [thing for thing in self._numbers if isinstance(thing, Buffer)]

    @property
    def variables(self) -> list[Variable]:
        """The variables, in the order in which they occur."""
        return [thing for thing in self._numbers if isinstance(thing, Variable)]

    def has(self, thing: Variable | Buffer) -> bool:
        """Tell whether a variable or an array occurs: where elements lie does not depend on every index."""
        if isinstance(thing, Buffer):
            return thing.space is Space.LITERAL or self._twin(thing) in self._numbers
        return thing in self._numbers

    def _twin(self, array: Buffer) -> Buffer:
        """The array whose memory another overwrites, if the kernel is called with both."""
        return array.alias if array.alias is not None and array.alias in self.given else array

    def _number(self, thing: Variable | Buffer) -> int:
        return self._numbers.setdefault(thing, len(self._numbers))

    def _array(self, array: Buffer) -> Hashable:
        if array.space is Space.LITERAL:
            return "literal", array.type, array.elements
        local = array.is_of_kernel
        room = (array.size, is_local(array), self.plan.scratch.get(array)) if local else None
        return self._number(self._twin(array)), array.type.dtype, local, bool(array.order), room

    def _items(self, items: Sequence[Item]) -> Hashable:
        return tuple(map(self._item, items))

    def _item(self, item: Item) -> Hashable:
        if isinstance(item, Loop):
            return "loop", self._number(item.variable), item.variable.extent, self._items(item.body)
        if isinstance(item, Check):
            return "check", self._scalar(item.scalar), item.size
        target = self._array(item.buffer), self._index(item.buffer.flat(item.indices))
        if isinstance(item, Store):
            return "define", target, self._scalar(item.scalar)
        if isinstance(item, Accumulate):
            return "update", target, item.op, self._scalar(item.scalar)
        if isinstance(item, Reduce):
            axes = tuple((self._number(v), v.extent) for v in item.axes)
            return "reduce", target, item.op, item.identity, axes, self._scalar(item.scalar)
        if isinstance(item, Sort):
            along = self._number(item.along), item.along.extent
            return "sort", target, self._scalar(item.keys), along, item.descending
        return self._product(item, target)

    def _product(self, item: MatMul, target: Hashable) -> Hashable:
        sizes = [(self._number(v), v.extent) for v in (item.m, item.n, item.k)]
        return "product", target, *sizes, self._scalar(item.left), self._scalar(item.right), item.add

    def _index(self, place: Index) -> Hashable:
        return place.constant, *((self._atom(atom), factor) for atom, factor in place.terms)

    def _atom(self, atom: Any) -> Hashable:
        if isinstance(atom, Variable):
            return self._number(atom), atom.extent
        if isinstance(atom, Read):
            return "read", self._scalar(atom.scalar)
        kind = "quotient" if isinstance(atom, Quotient) else "modulo"
        return kind, self._index(atom.index), atom.divisor

    def _scalar(self, scalar: Scalar) -> int:
        if scalar.number not in self._known:
            key = self._node(scalar)
            self._known[scalar.number] = self._scalars.setdefault(key, len(self._scalars))
        return self._known[scalar.number]

    def _node(self, scalar: Scalar) -> Hashable:
        if isinstance(scalar, Load):
            return "load", self._array(scalar.buffer), self._index(scalar.buffer.flat(scalar.indices))
        if isinstance(scalar, Number):
            return scalar.constant
        if isinstance(scalar, IndexValue):
            return "place", self._index(scalar.index), scalar.dtype
        operands = tuple(map(self._scalar, scalar.operands))
        if isinstance(scalar, Compute):
            return scalar.op, scalar.dtype, operands
        conditions = scalar.conditions if isinstance(scalar, Masked) else ()
        return (
            "guarded",
            tuple((self._index(c.index), c.size, c.below, c.above) for c in conditions),
            operands,
        )
