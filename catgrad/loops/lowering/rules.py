"""Lowering rules: from operations on arrays to loop nests, one for each materialised value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, singledispatch
from typing import NamedTuple

from catgrad.dims import Size
from catgrad.loops.ir.index import Index, Modulo, Quotient, Variable, index, is_within
from catgrad.loops.ir.nest import Check, Item, Kernel, Loop, Reduce, Store, nested
from catgrad.loops.ir.scalar import ROW_MAJOR, Buffer, Compute, IndexValue, Load, Scalar, Space
from catgrad.loops.ir.steps import Step
from catgrad.loops.lowering.index_maps import Elements, Indices, Source
from catgrad.loops.lowering.materialise import Choice
from catgrad.loops.lowering.names import Names
from catgrad.loops.machine import Machine
from catgrad.ops.cast import Cast
from catgrad.ops.gather import Gather, ScatterAdd
from catgrad.ops.take import ScatterAddAlongAxis, TakeAlongAxis
from catgrad.programs.program import Apply, Function
from catgrad.terms.op import Op
from catgrad.types import NdArrayType

Axes = list[list[Variable]]
"""The variables of which each axis' index is made, the outermost first."""

CHECKED = (Gather, ScatterAdd, TakeAlongAxis, ScatterAddAlongAxis)
"""Operations whose indices are checked."""


class Outside(NamedTuple):
    """A value around a loop, in other stages, that is the same in all of so many `turns`."""

    stages: Stages
    value: int
    turns: int


class Stages:
    """The nests of a function in canonical form, operation by operation; loops and branches are the caller's.

    Canonical form has one nest for each array: loops over its elements around a store, a reduction or a
    sort, or a matrix product. Names are hints: several buffers may have the same. In the body of a loop,
    `invariant` values are copied before it.
    """

    def __init__(
        self,
        function: Function,
        given: Mapping[int, Source],
        machine: Machine,
        invariant: Mapping[int, Outside] | None = None,
    ) -> None:
        self.function, self.types, self.machine = function, function.types, machine
        self.invariant = invariant or {}
        self.elements = Elements(function, given)
        self.choice = Choice(function, machine)
        self.arrays: dict[int, Buffer] = {}
        self.tables: dict[int, tuple[Buffer, ...]] = {}
        """The arrays of stacks whose rows are arrays of their own."""
        self.steps: list[Step] = []
        self.checks: list[Step] = []
        self.checked: set[tuple[int, Size]] = set()
        """Arrays of indices, before they were rearranged, and the sizes that they are checked for already."""
        self.names = Names(function)
        self.attended: dict[tuple[Op, Sequence[int]], tuple[Source, Buffer]] = {}
        """Output and logarithms of the rows' sums of attention that is reversed later."""

    def emit(self, apply: Apply) -> None:
        """Add the nests of an operation, if its outputs are materialised."""
        self.names.add(apply)
        self._check(apply)
        for position, value in enumerate(apply.outputs):
            if self.choice.is_stored(value) and value not in self.elements.sources:
                stage(apply.op, self, apply, position)

    def add(self, items: Sequence[Item], value: int | None = None) -> None:
        """Add nests; after them, a value is read from its array."""
        self.steps += (Kernel([item]) for item in items)
        if value is not None:
            self.elements.store(value, self.arrays[value])

    def array(self, value: int, order: tuple[int, ...] = ROW_MAJOR) -> Buffer:
        """Return the buffer of a value, with its axes in this order unless it exists already."""
        if value not in self.arrays:
            self.arrays[value] = Buffer(self.names.of(value), self.types[value], order=order)
        return self.arrays[value]

    def copied(self, array: Buffer, element: Callable[[Indices], Scalar]) -> list[Item]:
        """Loops that define each element of an array."""
        axes, scalar = regular(array.type.shape, element)
        variables = [v for axis in array.order for v in axes[axis]]
        return nested(variables, [Store(array, places(axes), scalar)])

    def factor(self, value: int, indices: Indices) -> Scalar:
        """Return an element of a factor of a matrix product, which widens bytes by itself."""
        scalar = self.elements.at(value, indices)
        is_byte = isinstance(scalar, Compute) and isinstance(scalar.op, Cast) and scalar.op.widens_bytes
        return scalar.operands[0] if is_byte else scalar

    def materialised(self, value: int, order: tuple[int, ...] = ROW_MAJOR, is_factor: bool = False) -> Buffer:
        """Materialise a value, for operations that cannot compute its elements, or a factor of a product."""
        if value in self.invariant:
            around = self.invariant[value]
            return around.stages.materialised(around.value, order, is_factor)
        element = partial(self.factor if is_factor else self.elements.at, value)
        probe = tuple(index(Variable(size)) for size in self.types[value].shape)
        scalar = element(probe)
        if order == ROW_MAJOR and isinstance(scalar, Load) and scalar.indices == probe:
            return scalar.buffer
        type = NdArrayType(self.types[value].shape, scalar.dtype)
        array = Buffer(self.names.of(value), type, order=order)
        copies = self.copied(array, element)
        for nest in copies:
            if isinstance(nest, Loop):
                nest.begins = True  # it belongs with what reads it, not with what it reads
        self.add(copies)
        return array

    def reduce(
        self,
        value: int,
        indices: Indices,
        free: Sequence[Variable],
        axes: Sequence[Variable],
        op: Op,
        scalar: Scalar,
        identity: float = 0,
    ) -> None:
        """Add a reduction over some axes for each value of the free variables."""
        statement = Reduce(self.array(value), indices, op, scalar, tuple(axes), identity)
        self.add(nested(free, [statement]), value)

    def _check(self, apply: Apply) -> None:
        """Add the bounds checks of a gather or scatter that are not proved, those of arguments first.

        A gather and the scatter that is its reverse read the same indices, which are checked once.
        """
        op = apply.op
        if not isinstance(op, CHECKED):
            return
        size: Size = op.rows if isinstance(op, (Gather, ScatterAdd)) else op.size
        origin = self.elements.origin(apply.inputs[1])
        if (origin, size) in self.checked:
            return
        self.checked.add((origin, size))
        loops = [Variable(n) for n in self.types[apply.inputs[1]].shape]
        scalar = self.elements.at(apply.inputs[1], tuple(map(index, loops)))
        if not (isinstance(scalar, IndexValue) and is_within(scalar.index, size)):
            of_arguments = all(load.buffer.space is Space.ARGUMENT for load in scalar.loads())
            checks = self.checks if of_arguments else self.steps
            checks += (Kernel([item]) for item in nested(loops, [Check(scalar, size)]))


@singledispatch
def stage(op: Op, stages: Stages, apply: Apply, position: int) -> None:
    """Add the nests of an operation: element by element, unless it has a rule."""
    element_by_element(stages, apply.outputs[position])


def element_by_element(stages: Stages, value: int) -> None:
    """Add a nest that computes each element of a value."""
    array = stages.array(value, stages.choice.orders.get(value, ROW_MAJOR))
    stages.add(stages.copied(array, lambda i: stages.elements.at(value, i)), value)


def places(axes: Axes) -> Indices:
    """The index of each axis."""
    return tuple(map(_place, axes))


def regular(shape: Sequence[Size], element: Callable[[Indices], Scalar]) -> tuple[Axes, Scalar]:
    """Make variables for each axis, split where indices would be divided, and the element at them."""
    axes: Axes = [[Variable(size)] for size in shape]
    scalar = element(places(axes))
    while (cut := _cut(scalar, axes)) is not None:
        axis, divisor = cut
        last = axes[axis].pop()
        axes[axis] += [Variable(last.extent // divisor), Variable(divisor)]
        scalar = element(places(axes))
    return axes, scalar


def _place(variables: Sequence[Variable]) -> Index:
    place, stride = Index(), 1
    for variable in reversed(variables):
        place += index(variable) * stride
        stride = stride * variable.extent  # type: ignore[assignment]
    return place


def _cut(scalar: Scalar, axes: Axes) -> tuple[int, Size] | None:
    """Find an axis, and the exact divisor of its innermost variable in some index."""
    innermost = {axis[-1]: number for number, axis in enumerate(axes)}
    for place in _indices(scalar):
        for atom, _ in place.terms:
            if not isinstance(atom, (Quotient, Modulo)):
                continue
            variable, divisor = atom.index.variable, atom.divisor
            if variable not in innermost or not isinstance(divisor, int):
                continue
            extent = variable.extent
            if isinstance(extent, int) and 1 < divisor < extent and extent % divisor == 0:
                return innermost[variable], divisor
    return None


def _indices(scalar: Scalar) -> list[Index]:
    """List the indices of the elements that a scalar reads, and those that it computes with."""
    found: list[Index] = []
    for node in scalar.nodes():
        found += node.indices if isinstance(node, Load) else ()
        found += [node.index] if isinstance(node, IndexValue) else []
    return found
