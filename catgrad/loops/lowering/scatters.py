"""Scatter: sums into elements at computed or loaded indices, the reverses of gathers."""

from __future__ import annotations

from collections.abc import Sequence

from catgrad.loops.ir.index import Read, Variable, index
from catgrad.loops.ir.nest import Accumulate, Store, nested
from catgrad.loops.ir.scalar import Buffer, Load, Scalar, cast, number
from catgrad.loops.lowering.index_maps import Indices, put
from catgrad.loops.lowering.rules import Stages, stage
from catgrad.ops.arithmetic import Add
from catgrad.ops.gather import ScatterAdd
from catgrad.ops.take import ScatterAddAlongAxis
from catgrad.programs.program import Apply
from catgrad.types import NdArrayType


@stage.register
def _(op: ScatterAdd, stages: Stages, apply: Apply, position: int) -> None:
    x, numbers = apply.inputs
    loops = [Variable(size) for size in stages.types[x].shape]
    at, rank = tuple(map(index, loops)), stages.types[numbers].rank
    row = index(Read(stages.elements.at(numbers, at[:rank]), op.rows))
    scatter(stages, apply.outputs[0], (row, *at[rank:]), loops, stages.elements.at(x, at))


@stage.register
def _(op: ScatterAddAlongAxis, stages: Stages, apply: Apply, position: int) -> None:
    x, numbers = apply.inputs
    loops = [Variable(size) for size in stages.types[x].shape]
    at = tuple(map(index, loops))
    place = index(Read(stages.elements.at(numbers, at), op.size))
    others = [v for axis, v in enumerate(loops) if axis != op.axis]
    order, x_at = [*others, loops[op.axis]], stages.elements.at(x, at)
    scatter(stages, apply.outputs[0], put(at, op.axis, place), order, x_at, len(others))


def scatter(
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
