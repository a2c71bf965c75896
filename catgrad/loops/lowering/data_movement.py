"""Data movement that is written part by part: padding, concatenation, literals, and stable sorting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from catgrad.dims import Size
from catgrad.loops.ir.index import Variable, index
from catgrad.loops.ir.nest import Item, Loop, Sort, Store, nested, size_hint
from catgrad.loops.ir.scalar import Buffer, Load, Scalar, Space, number
from catgrad.loops.lowering.rules import Stages, element_by_element, places, regular, stage
from catgrad.ops.literal import ArrayLiteral
from catgrad.ops.slices import Concat, Pad
from catgrad.ops.sort import ArgSort
from catgrad.programs.program import Apply
from catgrad.types import Dtype

MIN_PART = 2**20
"""Elements of a part of a concatenation that a GPU copies by itself, without a condition for each element."""


@stage.register
def _(op: ArrayLiteral, stages: Stages, apply: Apply, position: int) -> None:
    value = apply.outputs[0]
    name, type = stages.names.of(value), stages.types[value]
    stages.arrays[value] = Buffer(name, type, Space.LITERAL, elements=op.digits)
    stages.add([], value)


@stage.register
def _(op: Pad, stages: Stages, apply: Apply, position: int) -> None:
    """Pad: the operand, with zeros around it."""
    value = apply.outputs[0]
    if stages.machine.gpu.gathers:
        element_by_element(stages, value)
        return
    array = stages.array(value)
    operand = _part(stages, apply.inputs[0], array, op.starts)
    zero = number(0, array.type.dtype)
    if stages.machine.vectors.lanes == 1:
        stages.add(stages.copied(array, lambda _: zero))
        stages.add(operand, value)
        return
    # Nests of the margins alone join that of the operand: no element is written twice, far apart in time.
    stages.add(operand)
    for items in _margins(op, array, zero):
        stages.add(items)
    stages.add([], value)


def _margins(op: Pad, array: Buffer, zero: Scalar) -> Iterator[list[Item]]:
    """Yield nests that set the margins before and after the operand to zero, along each axis."""
    for axis, (before, after) in enumerate(op.margins):
        for start, size in ((0, before), (op.whole[axis] - after, after)):
            if size != 0:
                loops = [Variable(size if a == axis else whole) for a, whole in enumerate(op.whole)]
                at = tuple(index(v) + (start if a == axis else 0) for a, v in enumerate(loops))
                yield nested(loops, [Store(array, at, zero)])


@stage.register
def _(op: Concat, stages: Stages, apply: Apply, position: int) -> None:
    """Concatenation: one part after the other, numbers last, so that margins join the nest of the rest.

    Where threads gather elements, a part is worth a launch of its own if its copy takes longer than that.
    """
    value = apply.outputs[0]
    smallest = min(size_hint(stages.types[part].size) for part in apply.inputs)
    if stages.machine.gpu.gathers and smallest < MIN_PART:
        element_by_element(stages, value)
        return
    array = stages.array(value)
    parts = [(_part(stages, part, array, starts), part) for part, starts in _parts(stages, apply)]
    for items, _ in sorted(parts, key=lambda each: stages.choice.is_number(each[1])):
        for item in items:
            if stages.machine.gpu.gathers and isinstance(item, Loop):
                item.begins = True  # parts of which neighbours are copied by neighbouring threads
        stages.add(items)
    stages.add([], value)


def _parts(stages: Stages, apply: Apply, starts: Sequence[Size] = ()) -> Iterator[tuple[int, list[Size]]]:
    """Yield the parts of a concatenation, and of those that are parts of it alone, with their beginnings."""
    op, before = apply.op, 0
    assert isinstance(op, Concat)
    for part, size in zip(apply.inputs, op.sizes, strict=True):
        at: list[Size] = list(starts or [0] * stages.types[part].rank)
        at[op.axis] = at[op.axis] + before
        inner = stages.choice.producer.get(part)
        if inner is not None and isinstance(inner.op, Concat) and part not in stages.elements.sources:
            yield from _parts(stages, inner, at)
        else:
            yield part, at
        before = before + size  # type: ignore[assignment]


def _part(stages: Stages, value: int, array: Buffer, starts: Sequence[Size]) -> list[Item]:
    """Copy a value into the part of an array that begins at `starts`."""
    axes, scalar = regular(stages.types[value].shape, lambda i: stages.elements.at(value, i))
    at = tuple(i + start for i, start in zip(places(axes), starts, strict=True))
    return nested([v for axis in axes for v in axis], [Store(array, at, scalar)])


@stage.register
def _(op: ArgSort, stages: Stages, apply: Apply, position: int) -> None:
    (x,), value = apply.inputs, apply.outputs[0]
    if stages.types[x].shape[op.axis] in (0, 1):  # in order as it is, and perhaps no array at all
        zero = number(0, Dtype.int64)
        stages.add(stages.copied(stages.array(value), lambda _: zero), value)
        return
    keys = stages.materialised(x)
    loops = [Variable(size) for size in stages.types[x].shape]
    at, along = tuple(map(index, loops)), loops[op.axis]
    sort = Sort(stages.array(value), at, Load(keys, at), along, op.descending)
    stages.add(nested([v for v in loops if v is not along], [sort]), value)
