"""Two-stage reductions: where few elements are sums of many terms, blocks reduce parts of them first.

Terms are dealt to parts in a fixed order, so that results do not depend on how threads run. Those of matrix
products are split by `split_products`.
"""

from __future__ import annotations

from collections.abc import Sequence

from catgrad.dims import divided
from catgrad.loops.ir.index import Variable, index
from catgrad.loops.ir.nest import Kernel, Reduce, Substituted, nested, perfect_nest, size_hint
from catgrad.loops.ir.scalar import Bounds, Buffer, Compute, Load, Masked, Scalar, converted, number
from catgrad.loops.ir.steps import Lowered, Step
from catgrad.loops.machine import BLOCK, WARP, Machine
from catgrad.loops.passes.gpu.grids.wide import WIDTH
from catgrad.loops.passes.gpu.products.roles import count, matrix_product
from catgrad.ops.arithmetic import Add, Multiply
from catgrad.ops.extrema import ArgMax, ArgMin
from catgrad.types import NdArrayType

TEAM = BLOCK
"""Threads that sum one element together, where its terms are contiguous."""

MIN_SPLIT_TERMS = 2**12
"""Terms that one team does not sum quickly."""

MIN_TERMS = 32
"""Terms of a part that one thread sums."""

MAX_PARTS = 2**10
"""Parts that the second stage sums."""

RUN = WARP
"""Neighbouring terms that belong to one part, for the threads of a warp to read together."""


def split_sums(lowered: Lowered, machine: Machine) -> Lowered:
    """Reduce in two stages where one would leave most threads idle."""
    return lowered.map(lambda steps: [new for step in steps for new in _split(step, machine)])


def _split(step: Step, machine: Machine) -> list[Step]:
    match perfect_nest(step.body) if isinstance(step, Kernel) else None:
        case free, [Reduce() as r] if not isinstance(r.op, ArgMax | ArgMin):
            parts = _parts(r, free, machine.gpu.costs.busy_threads)
            if parts > 1:
                axis = max(r.axes, key=lambda v: size_hint(v.extent))
                part = Variable(parts, "part")
                return in_two_stages(r, free, part, *_dealt(r, axis, part, parts))
    return [step]


def _parts(r: Reduce, free: Sequence[Variable], threads: int) -> int:
    """Choose the number of parts that occupy enough threads; 1 if they are busy anyway."""
    team = TEAM if is_contiguous(r) else 1
    if count(r.axes) < MIN_SPLIT_TERMS or matrix_product(free, r) is not None:
        return 1
    is_wide = team == 1 and divided(free[-1].extent, WIDTH) is not None if free else False
    wanted = -(-threads * (WIDTH if is_wide else 1) // (count(free) * team))
    return _exact(r, team, min(wanted, count(r.axes) // (team * MIN_TERMS), MAX_PARTS))


def _exact(r: Reduce, team: int, parts: int) -> int:
    """Choose a number of parts that divides the terms, if there is one not far above what is wanted."""
    extent = max((v.extent for v in r.axes), key=size_hint)
    if team > 1 or not isinstance(extent, int):
        return parts
    return next((n for n in range(parts, min(2 * parts, MAX_PARTS + 1)) if extent % n == 0), parts)


def is_contiguous(r: Reduce) -> bool:
    """Tell whether neighbouring terms of a sum lie side by side, where loads reach most elements."""
    if not r.axes:
        return False
    places = [load.buffer.flat(load.indices) for load in r.scalar.loads()]
    sizes = [count([*{*place.variables()}]) for place in places]
    most = max(sizes, default=0)
    return any(
        size == most and place.coefficient(r.axes[-1]) == 1 for place, size in zip(places, sizes, strict=True)
    )


def in_two_stages(
    r: Reduce, free: Sequence[Variable], part: Variable, axes: tuple[Variable, ...], scalar: Scalar
) -> list[Step]:
    """Reduce the scalars of each part over axes, then these results over the parts, in their order."""
    wide = r.buffer.type.dtype.wide
    shape = (part.extent, *(v.extent for v in free))
    partial = Buffer(f"{r.buffer.name}_parts", NdArrayType(shape, wide))
    own = tuple(map(index, free))
    first = Reduce(partial, (index(part), *own), r.op, converted(scalar, wide), axes, r.identity)
    again = {v: Variable(v.extent, v.name) for v in free}
    last = Variable(part.extent, "part")
    terms = Load(partial, (index(last), *(index(again[v]) for v in free)))
    indices = Substituted({v: index(n) for v, n in again.items()}).indices(r.indices)
    second = Reduce(r.buffer, indices, r.op, terms, (last,), r.identity)
    stages = (nested([part, *free], [first]), nested([*again.values()], [second]))
    return [Kernel([item]) for nest in stages for item in nest]


def _dealt(r: Reduce, axis: Variable, part: Variable, parts: int) -> tuple[tuple[Variable, ...], Scalar]:
    """Deal the values of an axis to parts: one run to each, or where loads are contiguous, runs in turn."""
    run = RUN if axis is r.axes[-1] and is_contiguous(r) else 1
    stride = parts * run
    exact = isinstance(axis.extent, int) and axis.extent % stride == 0
    near = Variable(run, f"{axis.name}_near")
    if isinstance(axis.extent, int):
        turn = Variable(-(-axis.extent // stride), axis.name)
        place = index(turn) * stride
    else:
        turn = Variable(axis.extent, axis.name, step=stride)
        place = index(turn)
    place += index(part) * run + index(near)
    if exact and run == 1:
        place = index(part) * turn.extent + index(turn)
    axes = [turn if v is axis else v for v in r.axes] + ([near] if run > 1 else [])
    scalar = Substituted({axis: place}).scalar(r.scalar)
    return tuple(axes), scalar if exact else masked(scalar, r, Bounds(place, axis.extent, False, True))


def masked(scalar: Scalar, r: Reduce, bounds: Bounds) -> Scalar:
    """Replace a scalar beyond the end by the identity, and the factors of a product, which it remains."""
    if isinstance(scalar, Compute) and isinstance(scalar.op, Multiply) and isinstance(r.op, Add):
        factors = (Masked((bounds,), o, number(0, o.dtype)) for o in scalar.operands)
        return Compute(scalar.op, scalar.dtype, tuple(factors))
    return Masked((bounds,), scalar, number(r.identity, scalar.dtype))
