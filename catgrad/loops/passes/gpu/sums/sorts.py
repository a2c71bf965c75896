"""Expand sorts to reductions: each key's rank counts those before it, and each place finds its rank.

Source: Knuth 1998, The Art of Computer Programming 3, section 5.2, algorithm C
"""

from __future__ import annotations

from collections.abc import Sequence

from catgrad.loops.ir.index import Variable, index
from catgrad.loops.ir.nest import Item, Kernel, Reduce, Sort, Substituted, nested, perfect_nest
from catgrad.loops.ir.scalar import Buffer, Compute, IndexValue, Load, Scalar, cast, number
from catgrad.loops.ir.steps import Lowered, Step
from catgrad.loops.machine import Machine
from catgrad.ops.arithmetic import Add
from catgrad.ops.compare import Equal, Less, NotEqual, Select
from catgrad.ops.logic import And, Not, Or
from catgrad.types import Dtype, NdArrayType


def rank_sorts(lowered: Lowered, machine: Machine) -> Lowered:
    """Replace each sort by two kernels, in which all elements are independent."""
    return lowered.map(lambda steps: [new for step in steps for new in _ranked(step)])


def _ranked(step: Step) -> list[Step]:
    match perfect_nest(step.body) if isinstance(step, Kernel) else None:
        case free, [Sort() as s]:
            return _expanded(s, free)
    return [step]


def _expanded(s: Sort, free: Sequence[Variable]) -> list[Step]:
    n = s.along.extent
    other, place = Variable(n, "other"), Variable(n, "place")
    ranks = Buffer("ranks", NdArrayType((*(v.extent for v in free), n), Dtype.int32))
    at = tuple(map(index, free))
    here, there = s.keys, Substituted({s.along: index(other)}).load(s.keys)
    before = _int32(_precedes(there, here, other, s.along, s.descending))
    rank = Reduce(ranks, (*at, index(s.along)), Add(), before, (other,))
    mine = Compute(
        Equal(), Dtype.bool, (Load(ranks, (*at, index(other))), IndexValue(index(place), Dtype.int32))
    )
    found = Compute(
        Select(), Dtype.int64, (mine, IndexValue(index(other), Dtype.int64), number(0, Dtype.int64))
    )
    indices = Substituted({s.along: index(place)}).indices(s.indices)
    gather = Reduce(s.buffer, indices, Add(), found, (other,))
    nests: list[Item] = [*nested([*free, s.along], [rank]), *nested([*free, place], [gather])]
    return [Kernel([nest]) for nest in nests]


def _precedes(there: Load, here: Load, other: Variable, own: Variable, descending: bool) -> Scalar:
    """Compare keys, of which NaN is the greatest; equal ones stay in order."""
    first, second = (here, there) if descending else (there, here)
    before, equal = _compare(Less(), first, second), _compare(Equal(), there, here)
    if there.dtype.is_floating:
        nans = [_compare(NotEqual(), x, x) for x in (first, second)]
        only_second = _logic(And(), nans[1], Compute(Not(), Dtype.bool, (nans[0],)))
        before = _logic(Or(), before, only_second)
        equal = _logic(Or(), equal, _logic(And(), *nans))
    earlier = _compare(Less(), *(IndexValue(index(v), Dtype.int32) for v in (other, own)))
    return _logic(Or(), before, _logic(And(), equal, earlier))


def _compare(op: Less | Equal | NotEqual, x: Scalar, y: Scalar) -> Scalar:
    return Compute(op, Dtype.bool, (x, y))


def _logic(op: And | Or, x: Scalar, y: Scalar) -> Scalar:
    return Compute(op, Dtype.bool, (x, y))


def _int32(scalar: Scalar) -> Scalar:
    return cast(scalar, Dtype.int32)
