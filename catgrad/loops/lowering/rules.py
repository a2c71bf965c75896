"""From a function to nests: which values are stored, and the loops that compute each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import singledispatch

from catgrad.dims import Size, product
from catgrad.loops.ir.index import Index, Modulo, Quotient, Variable, index
from catgrad.loops.ir.nest import Accumulate, Check, Item, Loop, Store, Substituted, nested, size_hint
from catgrad.loops.ir.scalar import Buffer, Compute, IndexValue, Load, Number, Scalar
from catgrad.loops.lowering.index_maps import Elements, Indices, Source
from catgrad.loops.lowering.materialise import Choice
from catgrad.loops.passes.tidy import FEW
from catgrad.naming import Namer
from catgrad.ops.arithmetic import Add
from catgrad.ops.cast import Cast
from catgrad.ops.gather import Gather, ScatterAdd
from catgrad.ops.take import ScatterAddAlongAxis, TakeAlongAxis
from catgrad.programs.program import Apply, Function
from catgrad.terms.op import Op
from catgrad.terms.structural import Constant
from catgrad.types import Dtype, NdArrayType

LITTLE = 2**11
"""Sums that are all kept at hand while what they are sums of is gone through once."""

LONG = 2**12
"""Numbers that one accumulator adds up well."""

COLUMNS = 64
"""Columns of a matrix whose rows are added up, that are gone through at once."""

Axes = list[list[Variable]]
"""For each axis the variables its index is made of, the outermost first."""


class Stages:
    """The nests of a function, as its operations come; loops and branches are the caller's.

    Without `vectors`, a sum is finished before the next begins, and products are such sums.
    """

    def __init__(
        self, function: Function, given: Mapping[int, Source], namer: Namer, vectors: bool = True
    ) -> None:
        self.function, self.types, self.namer, self.vectors = function, function.types, namer, vectors
        self.elements = Elements(function, given)
        self.choice = Choice(function, given)
        self.arrays: dict[int, Buffer] = {}
        self.items: list[Item] = []
        self.checks: list[Item] = []

    def emit(self, apply: Apply) -> None:
        """Add the nests of an operation, if its outputs are to be stored."""
        self._check(apply)
        for position, value in enumerate(apply.outputs):
            if self.choice.is_stored(value) and value not in self.elements.sources:
                stage(apply.op, self, apply, position)

    def add(self, items: Sequence[Item], value: int | None = None) -> None:
        """Add nests; after them, a value is read from its array."""
        self.items.extend(items)
        if value is not None:
            self.elements.store(value, self.arrays[value])

    def array(self, value: int, order: tuple[int, ...] = ()) -> Buffer:
        """The array for a value, with its axes in this order unless it is known already."""
        if value not in self.arrays:
            self.arrays[value] = Buffer(self.name(value), self.types[value], order=order)
        return self.arrays[value]

    def name(self, value: int) -> str:
        """A new name for a value."""
        known = self.function.names.get(value)
        if known is None:
            op = self.elements.producer[value][0].op
            known = op.result or type(op).__name__.lower()
        return self.namer.fresh(known)

    def temporary(self, name: str, type: NdArrayType) -> Buffer:
        """A new array for something that is no value."""
        return Buffer(self.namer.fresh(name), type)

    def copied(self, array: Buffer, element: Callable[[Indices], Scalar]) -> list[Item]:
        """Loops that define each element of an array."""
        axes, scalar = regular(array.type.shape, element)
        variables = [v for axis in array.order for v in axes[axis]]
        if not self.vectors:
            variables = _short_last(variables)
        return nested(variables, [Store(array, places(axes), scalar)])

    def materialised(self, value: int, order: tuple[int, ...] = ()) -> Buffer:
        """An array that holds a value, for those who cannot compute its elements."""
        probe = tuple(index(Variable(size)) for size in self.types[value].shape)
        scalar = self.elements.at(value, probe)
        if not order and isinstance(scalar, Load) and scalar.indices == probe:
            return scalar.buffer
        array = Buffer(self.name(value), self.types[value], order=order)
        copies = self.copied(array, lambda i: self.elements.at(value, i))
        for nest in copies:
            if isinstance(nest, Loop):
                nest.begins = True  # it belongs with what reads it, not with what it reads
        self.add(copies)
        return array

    def accumulate(
        self,
        value: int,
        indices: Indices,
        free: Sequence[Variable],
        summed: Sequence[Variable],
        op: Op,
        start: float,
        scalar: Scalar,
    ) -> None:
        """Loops that add up a scalar, in the order in which what it reads lies in memory."""
        array, dtype = self.array(value), self.types[value].dtype
        wide = dtype.wide
        scalar = scalar if scalar.dtype is wide else cast(scalar, wide)
        order = _memory_order(scalar, free, summed) if self.vectors else _one_by_one(free, summed)
        if self.vectors and order[-1:] and order[-1] in free and (cut := _in_blocks(order[-1])):
            outer, inner = cut
            change = Substituted({order[-1]: index(outer) * COLUMNS + index(inner)})
            scalar, indices = change.scalar(scalar), change.indices(indices)
            free = [v for v in free if v is not order[-1]] + [outer, inner]
            order = [outer, *order[:-1], inner]
        first = next((k for k, v in enumerate(order) if v in summed), len(order))
        inside, own = [v for v in order[first:] if v in free], tuple(map(index, free))
        total = self.temporary("sum", NdArrayType(tuple(v.extent for v in free), wide))
        last: Scalar = Load(total, own)
        long = self.vectors and _is_long(order[first:])
        if long and isinstance(op, Add) and wide is Dtype.float32 and not inside:
            items, last = self._added_in_two(order[first], order[first + 1 :], own, total, scalar)
            body = [*items, Store(array, indices, last if wide is dtype else cast(last, dtype))]
            self.add(nested(order[:first], body), value)
            return
        body = _again(inside, Store(total, own, number(start, wide)))
        body += nested(order[first:], [Accumulate(total, own, op, scalar)])
        body += _again(inside, Store(array, indices, last if wide is dtype else cast(last, dtype)))
        self.add(nested(order[:first], body), value)

    def _added_in_two(
        self, outer: Variable, inner: Sequence[Variable], own: Indices, part: Buffer, scalar: Scalar
    ) -> tuple[list[Item], Scalar]:
        """A sum of sums, the outer one formed in float64: a float32 would lose what it gets late."""
        total = self.temporary("total", NdArrayType(part.type.shape, Dtype.float64))
        turn: list[Item] = [
            Store(part, own, number(0, Dtype.float32)),
            *nested(inner, [Accumulate(part, own, Add(), scalar)]),
            Accumulate(total, own, Add(), cast(Load(part, own), Dtype.float64)),
        ]
        items = [Store(total, own, number(0, Dtype.float64)), *nested([outer], turn)]
        return items, cast(Load(total, own), Dtype.float32)

    def _check(self, apply: Apply) -> None:
        """That numbers of elements are numbers of elements."""
        op = apply.op
        if not isinstance(op, (Gather, ScatterAdd, TakeAlongAxis, ScatterAddAlongAxis)):
            return
        size: Size = op.rows if isinstance(op, (Gather, ScatterAdd)) else op.size
        loops = [Variable(n) for n in self.types[apply.inputs[1]].shape]
        scalar = self.elements.at(apply.inputs[1], tuple(map(index, loops)))
        if not isinstance(scalar, IndexValue):
            of_arguments = all(load.buffer.place == "argument" for load in scalar.loads())
            (self.checks if of_arguments else self.items).extend(nested(loops, [Check(scalar, size)]))


@singledispatch
def stage(op: Op, stages: Stages, apply: Apply, position: int) -> None:
    """Add the nests of an operation: element by element, if nothing else is known of it."""
    value = apply.outputs[position]
    array = stages.array(value, stages.choice.orders.get(value, ()))
    stages.add(stages.copied(array, lambda i: stages.elements.at(value, i)), value)


def number(value: float, dtype: object) -> Number:
    """A number of a dtype."""
    return Number(Constant(NdArrayType((), dtype), value))  # type: ignore[arg-type]


def cast(scalar: Scalar, dtype: object) -> Scalar:
    """A scalar in another dtype."""
    return Compute(Cast(scalar.dtype, dtype), dtype, (scalar,))  # type: ignore[arg-type]


def places(axes: Axes) -> Indices:
    """The index of each axis."""
    return tuple(map(_place, axes))


def regular(shape: Sequence[Size], element: Callable[[Indices], Scalar]) -> tuple[Axes, Scalar]:
    """Variables for the axes of a shape, as many as it takes for no index to be divided if it can be so."""
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
    """An axis and by what its innermost variable is divided somewhere, exactly."""
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
    """All indices of what a scalar reads, those within divisions included."""
    found: list[Index] = []
    for load in scalar.loads():
        found.extend(load.indices)
    stack: list[Scalar] = [scalar]
    while stack:
        node = stack.pop()
        if isinstance(node, IndexValue):
            found.append(node.index)
        stack.extend(node.operands)
    return found


def _memory_order(scalar: Scalar, free: Sequence[Variable], summed: Sequence[Variable]) -> list[Variable]:
    """Variables by how far apart elements are along them in what most of them move through.

    Where those summed over come last anyway, all others come first.
    """
    loads = [(load, load.buffer.flat(load.indices)) for load in scalar.loads()]
    if not loads or not (free or summed):
        return [*free, *summed]
    _, main = max(loads, key=lambda pair: sum(pair[1].coefficient(v) != 0 for v in (*free, *summed)))

    def distance(v: Variable) -> int:
        return abs(size_hint(main.coefficient(v))) or (0 if v in summed else 1 << 60)

    order = sorted((*free, *summed), key=lambda v: -distance(v))
    if order[-1] in summed:
        return [*free, *(v for v in order if v in summed)]
    rows = [v for v in order if v in free and any(_is_outside(v, summed, place) for _, place in loads)]
    columns = [v for v in order if v in free and v not in rows]
    if size_hint(product(tuple(v.extent for v in columns))) <= LITTLE:
        return [*rows, *(v for v in order if v in summed), *columns]
    return order


def _one_by_one(free: Sequence[Variable], summed: Sequence[Variable]) -> list[Variable]:
    """Variables such that one sum is finished before the next begins."""
    few = size_hint(product(tuple(v.extent for v in summed))) <= FEW
    return [*(_short_last(free) if few else free), *summed]


def _short_last(free: Sequence[Variable]) -> list[Variable]:
    """Variables with those of few values innermost, whose turns will be written out."""
    return sorted(free, key=lambda v: size_hint(v.extent) <= FEW)


def _is_outside(v: Variable, summed: Sequence[Variable], place: Index) -> bool:
    """Whether an array moves on further along a variable than along those summed over."""
    steps = [abs(size_hint(place.coefficient(s))) for s in summed if place.coefficient(s) != 0]
    return bool(steps) and abs(size_hint(place.coefficient(v))) > max(steps)


def _is_long(summed: Sequence[Variable]) -> bool:
    """Whether so many are added up, by loops within loops, that one accumulator would round too often."""
    count = product(tuple(v.extent for v in summed))
    nests = [v for v in summed if v.extent != 1]
    return len(nests) > 1 and nests[0] is summed[0] and not (isinstance(count, int) and count <= LONG)


def _in_blocks(columns: Variable) -> tuple[Variable, Variable] | None:
    """Variables for blocks of columns and those within one, so that threads can share blocks."""
    extent = columns.extent
    if not isinstance(extent, int) or extent % COLUMNS or extent == COLUMNS:
        return None
    return Variable(extent // COLUMNS), Variable(COLUMNS)


def _again(variables: Sequence[Variable], define: Store) -> list[Item]:
    """A definition in loops of its own over these variables."""
    new = {v: Variable(v.extent) for v in variables}
    return nested(list(new.values()), [define.substitute({v: index(n) for v, n in new.items()})])
