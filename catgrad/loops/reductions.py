"""Reductions: sums, extrema, their places, and running sums."""

from __future__ import annotations

from catgrad.loops.element import put
from catgrad.loops.index import ZERO, Variable, index
from catgrad.loops.nest import Define, Item, Update, nested
from catgrad.loops.scalar import Compute, Load, Place
from catgrad.loops.stages import Stages, cast, number, places, regular, stage
from catgrad.op import Op
from catgrad.ops.arithmetic import Add, Maximum
from catgrad.ops.compare import Select
from catgrad.ops.cumulative import CumSum
from catgrad.ops.extrema import ArgMax, ArgMin, Max
from catgrad.ops.reduce import Sum
from catgrad.program import Apply
from catgrad.types import Dtype, NdArrayType


class Better(Op, register=False):
    """Whether x goes before the best so far: it is greater, or less, or the first NaN."""

    greatest: bool
    elementwise = True


@stage.register
def _(op: Sum, stages: Stages, apply: Apply, position: int) -> None:
    _reduce(stages, apply, op.axes, Add(), 0)


@stage.register
def _(op: Max, stages: Stages, apply: Apply, position: int) -> None:
    _reduce(stages, apply, (op.axis,), Maximum(), float("-inf"))


@stage.register
def _(op: ArgMax, stages: Stages, apply: Apply, position: int) -> None:
    _place_of(stages, apply, op.axis, True)


@stage.register
def _(op: ArgMin, stages: Stages, apply: Apply, position: int) -> None:
    _place_of(stages, apply, op.axis, False)


@stage.register
def _(op: CumSum, stages: Stages, apply: Apply, position: int) -> None:
    (x,), value = apply.inputs, apply.outputs[0]
    array, dtype, shape = stages.array(value), stages.types[value].dtype, stages.types[x].shape
    loops = [Variable(size) for size in shape]
    at = tuple(map(index, loops))
    if op.backwards:
        at = put(at, op.axis, at[op.axis] * -1 + (shape[op.axis] - 1))
    free = [v for axis, v in enumerate(loops) if axis != op.axis]
    rest = tuple(map(index, free))
    total = stages.temporary("sum", NdArrayType(tuple(v.extent for v in free), dtype.wide))
    x_at = stages.elements.at(x, at)
    same = dtype.wide is dtype
    step: list[Item] = [
        Update(total, rest, Add(), x_at if same else cast(x_at, dtype.wide)),
        Define(array, at, Load(total, rest) if same else cast(Load(total, rest), dtype)),
    ]
    begin = Define(total, rest, number(0, dtype.wide))
    stages.add(nested(free, [begin, *nested([loops[op.axis]], step)]), value)


def _reduce(stages: Stages, apply: Apply, axes: tuple[int, ...], op: Op, start: float) -> None:
    (x,), value = apply.inputs, apply.outputs[0]
    loops, scalar = regular(stages.types[x].shape, lambda i: stages.elements.at(x, i))
    kept = [axis for number, axis in enumerate(loops) if number not in axes]
    free, summed = [v for axis in kept for v in axis], [v for axis in axes for v in loops[axis]]
    stages.accumulate(value, places(kept), free, summed, op, start, scalar)


def _place_of(stages: Stages, apply: Apply, axis: int, greatest: bool) -> None:
    (x,), value = apply.inputs, apply.outputs[0]
    loops = [Variable(size) for size in stages.types[x].shape]
    free = [v for a, v in enumerate(loops) if a != axis]
    indices, at = tuple(map(index, free)), tuple(map(index, loops))
    place, dtype = stages.array(value), stages.types[x].dtype
    best = stages.temporary("best", NdArrayType(stages.types[value].shape, dtype))
    where = stages.temporary("where", stages.types[value])
    first, new = stages.elements.at(x, put(at, axis, ZERO)), stages.elements.at(x, at)
    better = Compute(Better(greatest), Dtype.bool, (new, Load(best, indices)))
    here = Place(index(loops[axis]), Dtype.int64)
    turn: list[Item] = [
        Define(where, indices, Compute(Select(), Dtype.int64, (better, here, Load(where, indices)))),
        Define(best, indices, Compute(Select(), dtype, (better, new, Load(best, indices)))),
    ]
    begin = [Define(best, indices, first), Define(where, indices, number(0, Dtype.int64))]
    end = Define(place, indices, Load(where, indices))
    stages.add(nested(free, [*begin, *nested([loops[axis]], turn), end]), value)
