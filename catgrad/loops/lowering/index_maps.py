"""Index maps: data movement becomes a change of indices, and so costs no copy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import singledispatchmethod

from catgrad.dims import Size, product
from catgrad.errors import UnsupportedOp
from catgrad.loops.ir.index import ZERO, Index, Read, index, is_below, is_natural, modulo, quotient
from catgrad.loops.ir.scalar import Bounds, Buffer, Compute, IndexValue, Load, Masked, Scalar, number
from catgrad.ops.arithmetic import Add
from catgrad.ops.extrema import Iota
from catgrad.ops.gather import Gather
from catgrad.ops.random import Draw
from catgrad.ops.reduce import Broadcast
from catgrad.ops.shape import Permute, Reshape
from catgrad.ops.slices import Concat, Flip, Pad, Slice, Split
from catgrad.ops.table import Stack, Unstack
from catgrad.ops.take import TakeAlongAxis
from catgrad.ops.window import Fold, Window
from catgrad.programs.program import Apply, Function
from catgrad.terms.op import Op
from catgrad.terms.structural import Constant, NumberOf
from catgrad.types import Dtype

Indices = tuple[Index, ...]
Source = Callable[[Indices], Scalar]

VIEWS = (Broadcast, Permute, Reshape, Slice, Flip, Split, Unstack, Window, Gather, TakeAlongAxis)
"""Operations that an index map replaces completely."""
AFFINE_VIEWS = (Broadcast, Permute, Reshape, Slice, Flip, Split, Unstack, Window)
"""Views whose indices are affine in the loop variables, if nothing is divided."""
GENERATORS = (Constant, Iota, NumberOf)
"""Operations computed where they are read (rematerialised)."""


class Elements:
    """The elements of a function's values: loaded from memory if materialised, else computed."""

    def __init__(self, function: Function, given: Mapping[int, Source]) -> None:
        self.types = function.types
        self.producer: dict[int, tuple[Apply, int]] = {}
        for apply in function.body:
            for position, output in enumerate(apply.outputs):
                self.producer[output] = apply, position
        self.sources: dict[int, Source] = dict(given)
        self._known: dict[tuple[int, Indices], Scalar] = {}

    def store(self, value: int, array: Buffer, place: Callable[[Indices], Indices] = tuple) -> None:
        """Load a value from memory from now on, its elements from the places in an array of their indices."""
        loads: dict[Indices, Load] = {}

        def load(indices: Indices) -> Scalar:
            if indices not in loads:
                loads[indices] = Load(array, place(indices))
            return loads[indices]

        self.sources[value] = load
        self._known.clear()

    def origin(self, value: int) -> int:
        """Return the value of whose elements this one is a rearrangement."""
        while value in self.producer and isinstance(self.producer[value][0].op, (Permute, Reshape)):
            (value,) = self.producer[value][0].inputs
        return value

    def at(self, value: int, indices: Indices) -> Scalar:
        """Return the element of a value at these indices; 0 of an empty array, of which none is needed."""
        if product(self.types[value].shape) == 0:
            return _zero(self.types[value].dtype)
        if value in self.sources:
            return self.sources[value](indices)
        key = value, indices
        if key not in self._known:
            apply, position = self.producer[value]
            self._known[key] = self._element(apply.op, apply, position, indices)
        return self._known[key]

    @singledispatchmethod
    def _element(self, op: Op, apply: Apply, position: int, indices: Indices) -> Scalar:
        if not op.elementwise:
            raise UnsupportedOp(
                "an operation must have a lowering rule to become a kernel",
                f"{op.macro} has none",
                "register one in catgrad/loops/lowering/index_maps.py, or give the operation a body",
            )
        operands = tuple(self.at(value, indices) for value in apply.inputs)
        return Compute(op, self.types[apply.outputs[0]].dtype, operands)

    @_element.register
    def _(self, op: Constant, apply: Apply, position: int, indices: Indices) -> Scalar:
        return number(op.value, op.array_type.dtype)

    @_element.register
    def _(self, op: NumberOf, apply: Apply, position: int, indices: Indices) -> Scalar:
        return IndexValue(Index((), op.size), op.dtype)

    @_element.register
    def _(self, op: Iota, apply: Apply, position: int, indices: Indices) -> Scalar:
        return IndexValue(indices[0], self.types[apply.outputs[0]].dtype)

    @_element.register
    def _(self, op: Draw, apply: Apply, position: int, indices: Indices) -> Scalar:
        seed, counter, *rest = (self.at(value, ()) for value in apply.inputs)
        first, stream = op.ends(*rest)
        place: Scalar = IndexValue(flat(indices, op.shape), seed.dtype)
        if first is not None:
            place = Compute(Add(), seed.dtype, (first, place))
        return Compute(op, op.dtype, (seed, counter, place, *([stream] if op.stream is None else [])))

    @_element.register
    def _(self, op: Broadcast, apply: Apply, position: int, indices: Indices) -> Scalar:
        kept = tuple(i for axis, i in enumerate(indices) if axis not in op.axes)
        return self.at(apply.inputs[0], kept)

    @_element.register
    def _(self, op: Permute, apply: Apply, position: int, indices: Indices) -> Scalar:
        place = dict(zip(op.order, indices, strict=True))
        return self.at(apply.inputs[0], tuple(place[axis] for axis in range(len(indices))))

    @_element.register
    def _(self, op: Reshape, apply: Apply, position: int, indices: Indices) -> Scalar:
        shape = self.types[apply.inputs[0]].shape
        whole = self.types[apply.outputs[0]].shape
        return self.at(apply.inputs[0], unflat(flat(indices, whole), shape))

    @_element.register
    def _(self, op: Slice, apply: Apply, position: int, indices: Indices) -> Scalar:
        return self.at(apply.inputs[0], tuple(i + s for i, s in zip(indices, op.starts, strict=True)))

    @_element.register
    def _(self, op: Flip, apply: Apply, position: int, indices: Indices) -> Scalar:
        shape = self.types[apply.inputs[0]].shape
        turned = [
            i * -1 + (n - 1) if a in op.axes else i
            for a, (i, n) in enumerate(zip(indices, shape, strict=True))
        ]
        return self.at(apply.inputs[0], tuple(turned))

    @_element.register
    def _(self, op: Split, apply: Apply, position: int, indices: Indices) -> Scalar:
        before = sum(op.sizes[:position])
        return self.at(apply.inputs[0], put(indices, op.axis, indices[op.axis] + before))

    @_element.register
    def _(self, op: Window, apply: Apply, position: int, indices: Indices) -> Scalar:
        return self.at(apply.inputs[0], slid(op, indices))

    @_element.register
    def _(self, op: Gather, apply: Apply, position: int, indices: Indices) -> Scalar:
        x, numbers = apply.inputs
        rank = self.types[numbers].rank
        row = index(Read(self.at(numbers, indices[:rank]), op.rows))
        return self.at(x, (row, *indices[rank:]))

    @_element.register
    def _(self, op: TakeAlongAxis, apply: Apply, position: int, indices: Indices) -> Scalar:
        x, numbers = apply.inputs
        taken = index(Read(self.at(numbers, indices), op.size))
        return self.at(x, put(indices, op.axis, taken))

    @_element.register
    def _(self, op: Pad, apply: Apply, position: int, indices: Indices) -> Scalar:
        places, conditions = [], []
        for i, start, size, whole in zip(indices, op.starts, op.sizes, op.whole, strict=True):
            places.append(i - start)
            if size != whole:
                conditions.append(Bounds(i - start, size, start != 0, start + size != whole))
        return masked(self.at(apply.inputs[0], tuple(places)), conditions)

    @_element.register
    def _(self, op: Fold, apply: Apply, position: int, indices: Indices) -> Scalar:
        """Read the only window that an element can lie in, i = o · stride + k: windows are disjoint."""
        places, within, conditions = list(indices), list[Index](), list[Bounds]()
        for axis, size, stride in zip(op.axes, op.sizes, op.strides, strict=True):
            places[axis], offset = quotient(indices[axis], stride), modulo(indices[axis], stride)
            within.append(offset)
            conditions += existing(places[axis], op.windowed[axis]) if not op.is_tiled else []
            conditions += existing(offset, size)
        return masked(self.at(apply.inputs[0], (*places, *within)), conditions)

    @_element.register
    def _(self, op: Concat, apply: Apply, position: int, indices: Indices) -> Scalar:
        i, parts = indices[op.axis], []
        before: Size = 0
        for value, size in zip(apply.inputs, op.sizes, strict=True):
            if size != 0:
                parts.append((i - before, size, self.at(value, put(indices, op.axis, i - before))))
            before = before + size
        return _chosen(parts) or _zero(self.types[apply.outputs[0]].dtype)

    @_element.register
    def _(self, op: Stack, apply: Apply, position: int, indices: Indices) -> Scalar:
        row, *rest = indices
        entries = [self.at(value, tuple(rest)) for value in apply.inputs]
        parts = [(row - t, 1, entry) for t, entry in enumerate(entries)]
        return entries[row.constant] if not row.terms else _chosen(parts)  # type: ignore[return-value]

    @_element.register
    def _(self, op: Unstack, apply: Apply, position: int, indices: Indices) -> Scalar:
        return self.at(apply.inputs[0], (Index((), position), *indices))


def _chosen(parts: Sequence[tuple[Index, Size, Scalar]]) -> Scalar | None:
    """Return the element of the first part that an index lies in; None if there are no parts."""
    result: Scalar | None = None
    for place, size, inside in reversed(parts):
        below = Bounds(place, size, False, True)
        result = inside if result is None else Masked((below,), inside, result)
    return result


def _zero(dtype: Dtype) -> Scalar:
    return number(0, dtype)


def existing(place: Index, size: Size) -> list[Bounds]:
    """Return the condition that an index lies in an axis; none if it always does."""
    below, above = not is_natural(place), not is_below(place, size)
    return [Bounds(place, size, below, above)] if below or above else []


def masked(scalar: Scalar, conditions: Sequence[Bounds]) -> Scalar:
    """Return a scalar where all conditions hold, 0 elsewhere."""
    return Masked(tuple(conditions), scalar, _zero(scalar.dtype)) if conditions else scalar


def flat(indices: Indices, shape: tuple[Size, ...]) -> Index:
    """Compute the row-major offset of an element."""
    place = ZERO
    stride: Size = 1
    for i, size in zip(reversed(indices), reversed(shape), strict=True):
        place += i * stride
        stride = stride * size
    return place


def unflat(place: Index, shape: tuple[Size, ...]) -> Indices:
    """Compute the indices of the element at a row-major offset."""
    if product(shape) == 0:
        return (ZERO,) * len(shape)
    indices = []
    for axis, size in reversed(list(enumerate(shape))):
        if size == 1:
            indices.append(ZERO)
            continue
        outermost = all(other == 1 for other in shape[:axis])
        indices.append(place if outermost else modulo(place, size))
        place = ZERO if outermost else quotient(place, size)
    return tuple(reversed(indices))


def put(indices: Indices, axis: int, new: Index) -> Indices:
    """Replace the index of one axis."""
    return (*indices[:axis], new, *indices[axis + 1 :])


def slid(op: Window, indices: Indices) -> Indices:
    """Compute the indices of a window's element: o · stride + k · dilation along each of its axes."""
    rank = len(op.shape)
    places = list(indices[:rank])
    for k, (axis, stride, dilation) in enumerate(zip(op.axes, op.strides, op.dilations, strict=True)):
        places[axis] = indices[axis] * stride + indices[rank + k] * dilation
    return tuple(places)
