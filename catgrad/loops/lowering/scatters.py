"""Scatter: sums into elements at computed or loaded indices, the reverses of windows and of gathers."""

from __future__ import annotations

from collections.abc import Sequence

from catgrad.loops.ir.index import ZERO, Index, Read, Variable, index, is_below, is_natural, modulo, quotient
from catgrad.loops.ir.nest import Accumulate, Store, Substituted, nested
from catgrad.loops.ir.scalar import Bounds, Buffer, Compute, Load, Masked, Scalar, cast, number
from catgrad.loops.lowering.index_maps import Indices, Source, put, slid
from catgrad.loops.lowering.products import summed_variables, terms
from catgrad.loops.lowering.rules import Stages, stage
from catgrad.ops.arithmetic import Add
from catgrad.ops.contract import Contract
from catgrad.ops.gather import ScatterAdd
from catgrad.ops.shape import Permute, Reshape
from catgrad.ops.take import ScatterAddAlongAxis
from catgrad.ops.window import Fold, Window
from catgrad.programs.program import Apply
from catgrad.types import NdArrayType


@stage.register
def _(op: Fold, stages: Stages, apply: Apply, position: int) -> None:
    (x,), value = apply.inputs, apply.outputs[0]
    if op.is_tiled:
        stages.add(stages.copied(stages.array(value), _tiles(op, stages, x)), value)
        return
    if stages.machine.gpu.gathers:
        _gather_windows(op, stages, x, value)
        return
    window = Window(op.shape, op.axes, op.sizes, op.strides, op.dilations)
    loops = [Variable(size) for size in op.windowed]
    at, rank = tuple(map(index, loops)), len(op.shape)
    others = [v for axis, v in enumerate(loops[:rank]) if axis not in op.axes]
    order = [*others, *loops[rank:], *(loops[axis] for axis in op.axes)]
    one = Substituted(dict.fromkeys(_fold_product(stages, x), ZERO))  # a term
    _scatter(stages, value, slid(window, at), order, one.scalar(stages.elements.at(x, at)), len(others))


def _tiles(op: Fold, stages: Stages, x: int) -> Source:
    """Read each element from the one window that it lies in: i = o · size + k."""

    def at(indices: Indices) -> Scalar:
        places, within = list(indices), list[Index]()
        for axis, size in zip(op.axes, op.sizes, strict=True):
            places[axis] = quotient(indices[axis], size)
            within.append(modulo(indices[axis], size))
        return stages.elements.at(x, (*places, *within))

    return at


def _gather_windows(op: Fold, stages: Stages, x: int, value: int) -> None:
    """Sum for each element what the windows have that it lies in: i = o · stride + k · dilation."""
    loops, within = [Variable(size) for size in op.shape], [Variable(size, "k") for size in op.sizes]
    places, conditions = list(map(index, loops)), list[Bounds]()
    for k, axis, stride, dilation in zip(within, op.axes, op.strides, op.dilations, strict=True):
        begin = index(loops[axis]) - index(k) * dilation
        steps = -(-(k.extent - 1) * dilation // stride)
        start = begin + stride * steps
        place = places[axis] = quotient(start, stride) - steps
        below, above = not is_natural(place), not is_below(place, op.windowed[axis])
        conditions += [Bounds(place, op.windowed[axis], below, above)] if below or above else []
        if stride > 1:
            conditions.append(Bounds(modulo(start, stride), 1, False, True))
    summed = _fold_product(stages, x)
    inside = stages.elements.at(x, (*places, *map(index, within)))
    own = {loops[axis] for axis in op.axes}
    if summed and isinstance(inside, Compute):
        # The factor that windows lie in is masked: the sum of products remains one.
        factors = [_masked(f, conditions) if own & f.variables else f for f in inside.operands]
        scalar: Scalar = Compute(inside.op, inside.dtype, tuple(factors))
    else:
        scalar = _masked(inside, conditions)
    stages.reduce(value, tuple(map(index, loops)), loops, [*within, *summed], Add(), scalar)


def _masked(scalar: Scalar, conditions: Sequence[Bounds]) -> Scalar:
    return Masked(tuple(conditions), scalar, number(0, scalar.dtype)) if conditions else scalar


def _fold_product(stages: Stages, value: int) -> list[Variable]:
    """Let the elements of a value be the terms of a folded contraction; returns what it sums over."""
    while value not in stages.choice.folded:
        apply, _ = stages.elements.producer.get(value, (None, 0))
        if apply is None or not isinstance(apply.op, (Permute, Reshape)):
            return []
        (value,) = apply.inputs
    contraction, _ = stages.elements.producer[value]
    assert isinstance(contraction.op, Contract)
    summed = summed_variables(contraction.op, [stages.types[v] for v in contraction.inputs])
    stages.elements.sources[value] = terms(stages, contraction, summed)
    return [*summed.values()]


@stage.register
def _(op: ScatterAdd, stages: Stages, apply: Apply, position: int) -> None:
    x, numbers = apply.inputs
    loops = [Variable(size) for size in stages.types[x].shape]
    at, rank = tuple(map(index, loops)), stages.types[numbers].rank
    row = index(Read(stages.elements.at(numbers, at[:rank]), op.rows))
    _scatter(stages, apply.outputs[0], (row, *at[rank:]), loops, stages.elements.at(x, at))


@stage.register
def _(op: ScatterAddAlongAxis, stages: Stages, apply: Apply, position: int) -> None:
    x, numbers = apply.inputs
    loops = [Variable(size) for size in stages.types[x].shape]
    at = tuple(map(index, loops))
    place = index(Read(stages.elements.at(numbers, at), op.size))
    others = [v for axis, v in enumerate(loops) if axis != op.axis]
    order, x_at = [*others, loops[op.axis]], stages.elements.at(x, at)
    _scatter(stages, apply.outputs[0], put(at, op.axis, place), order, x_at, len(others))


def _scatter(
    stages: Stages, value: int, at: Indices, order: Sequence[Variable], scalar: Scalar, shared: int = 0
) -> None:
    """Set to zero, and add scalars at indices; the `shared` outermost loops are those of both."""
    array, dtype = stages.array(value), stages.types[value].dtype
    total = array
    if dtype.wide is not dtype:
        total = Buffer("sum", NdArrayType(array.type.shape, dtype.wide))
        scalar = cast(scalar, dtype.wide)
    outer = [v for v in order[:shared] if v.extent != 1]
    loops = [Variable(size) for size in array.type.shape]
    places = [i if i.variable in outer else index(v) for i, v in zip(at, loops, strict=True)]
    inner = [v for i, v in zip(at, loops, strict=True) if i.variable not in outer]
    body = nested(inner, [Store(total, tuple(places), number(0, dtype.wide))])
    body += nested(order[shared:], [Accumulate(total, at, Add(), scalar)])
    if total is not array:
        again = {v: Variable(v.extent) for v in inner}
        ends = tuple(place.substitute({v: index(n) for v, n in again.items()}) for place in places)
        body += nested(list(again.values()), [Store(array, ends, cast(Load(total, ends), dtype))])
    stages.add(nested(outer, body), value)
