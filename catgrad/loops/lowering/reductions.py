"""Reductions: sums, extrema, their places, and running sums."""

from __future__ import annotations

from catgrad.loops.ir.index import ZERO, Variable, index
from catgrad.loops.ir.nest import Accumulate, Item, Store, nested
from catgrad.loops.ir.scalar import Compute, IndexValue, Load, Scalar
from catgrad.loops.lowering.index_maps import put
from catgrad.loops.lowering.rules import Stages, cast, number, places, regular, stage
from catgrad.ops.arithmetic import Add, Maximum, Minimum
from catgrad.ops.compare import Greater, Less, Select
from catgrad.ops.cumulative import CumSum
from catgrad.ops.extrema import ArgMax, ArgMin, Max
from catgrad.ops.reduce import Sum
from catgrad.programs.program import Apply
from catgrad.terms.op import Op
from catgrad.types import Dtype, NdArrayType


class Differs(Op, register=False):
    """Whether two numbers are not the same bits: NaN is what it is, unlike in a comparison."""

    of: Dtype
    elementwise = True


@stage.register
def _(op: Sum, stages: Stages, apply: Apply, position: int) -> None:
    _reduce(stages, apply, op.axes, Add(), 0)


@stage.register
def _(op: Max, stages: Stages, apply: Apply, position: int) -> None:
    dtype = stages.types[apply.outputs[0]].dtype
    least = float("-inf") if dtype.is_floating else dtype.limits.min
    _reduce(stages, apply, (op.axis,), Maximum(), least)


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
        Accumulate(total, rest, Add(), x_at if same else cast(x_at, dtype.wide)),
        Store(array, at, Load(total, rest) if same else cast(Load(total, rest), dtype)),
    ]
    begin = Store(total, rest, number(0, dtype.wide))
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
    # Places of 32 bits are compared beside elements of as many.
    where = stages.temporary("where", NdArrayType(stages.types[value].shape, Dtype.int32))
    x_at, old = stages.elements.at(x, at), Load(best, indices)
    begin: list[Item] = [Store(where, indices, number(0, Dtype.int32))]
    if dtype.is_floating:
        # A NaN once found is never replaced, as nothing is greater or less than it.
        start, new = number(float("-inf" if greatest else "inf"), dtype), Maximum() if greatest else Minimum()
        best_so_far: Scalar = Compute(new, dtype, (x_at, old))
        better = Compute(Differs(dtype.wide), Dtype.bool, (best_so_far, old))
    else:
        start = stages.elements.at(x, put(at, axis, ZERO))  # type: ignore[assignment]
        better = Compute(Greater() if greatest else Less(), Dtype.bool, (x_at, old))
        best_so_far = Compute(Select(), dtype, (better, x_at, old))
    here = IndexValue(index(loops[axis]), Dtype.int32)
    turn: list[Item] = [
        Store(where, indices, Compute(Select(), Dtype.int32, (better, here, Load(where, indices)))),
        Store(best, indices, best_so_far),
    ]
    end = Store(place, indices, cast(Load(where, indices), Dtype.int64))
    begin.append(Store(best, indices, start))
    stages.add(nested(free, [*begin, *nested([loops[axis]], turn), end]), value)
