"""Reductions: sums, extrema and their indices, and prefix sums."""

from __future__ import annotations

from catgrad.loops.ir.index import Variable, index
from catgrad.loops.ir.nest import Accumulate, Item, Store, nested
from catgrad.loops.ir.scalar import Buffer, Load, converted, number
from catgrad.loops.lowering.index_maps import put
from catgrad.loops.lowering.rules import Stages, places, regular, stage
from catgrad.ops.arithmetic import Add, Maximum
from catgrad.ops.cumulative import CumSum
from catgrad.ops.extrema import ArgMax, ArgMin, Max
from catgrad.ops.reduce import Sum
from catgrad.programs.program import Apply
from catgrad.terms.op import Op
from catgrad.types import NdArrayType


@stage.register
def _(op: Sum, stages: Stages, apply: Apply, position: int) -> None:
    _reduce(stages, apply, op.axes, Add(), 0)


@stage.register
def _(op: Max, stages: Stages, apply: Apply, position: int) -> None:
    dtype = stages.types[apply.outputs[0]].dtype
    least = float("-inf") if dtype.is_floating else dtype.limits.min
    _reduce(stages, apply, (op.axis,), Maximum(), least)


@stage.register
def _(op: ArgMax | ArgMin, stages: Stages, apply: Apply, position: int) -> None:
    (x,), value = apply.inputs, apply.outputs[0]
    loops = [Variable(size) for size in stages.types[x].shape]
    free = [v for axis, v in enumerate(loops) if axis != op.axis]
    scalar = stages.elements.at(x, tuple(map(index, loops)))
    stages.reduce(value, tuple(map(index, free)), free, [loops[op.axis]], op, scalar)


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
    total = Buffer("sum", NdArrayType(tuple(v.extent for v in free), dtype.wide))
    x_at = stages.elements.at(x, at)
    step: list[Item] = [
        Accumulate(total, rest, Add(), converted(x_at, dtype.wide)),
        Store(array, at, converted(Load(total, rest), dtype)),
    ]
    begin = Store(total, rest, number(0, dtype.wide))
    stages.add(nested(free, [begin, *nested([loops[op.axis]], step)]), value)


def _reduce(stages: Stages, apply: Apply, axes: tuple[int, ...], op: Op, start: float) -> None:
    (x,), value = apply.inputs, apply.outputs[0]
    loops, scalar = regular(stages.types[x].shape, lambda i: stages.elements.at(x, i))
    kept = [axis for number, axis in enumerate(loops) if number not in axes]
    free, summed = [v for axis in kept for v in axis], [v for axis in axes for v in loops[axis]]
    stages.reduce(value, places(kept), free, summed, op, scalar, start)
