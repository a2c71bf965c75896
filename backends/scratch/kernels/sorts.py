"""Sorting without a sort: the place of each key is how many come before it."""

from __future__ import annotations

from collections.abc import Sequence

from catgrad.loops.ir.index import Index, Read, Variable, index
from catgrad.loops.ir.nest import Accumulate, Item, Loop, Sort, Store, nested
from catgrad.loops.ir.scalar import Buffer, Compute, IndexValue, Load, Number, Scalar, Space
from catgrad.ops.arithmetic import Add
from catgrad.ops.cast import Cast
from catgrad.ops.compare import Equal, Greater, Less
from catgrad.ops.logic import And, Or
from catgrad.terms.structural import Constant
from catgrad.types import Dtype, NdArrayType


def without_sorts(items: Sequence[Item]) -> list[Item]:
    """The items with loops that count for each sort."""
    return [new for item in items for new in _without(item)]


def _without(item: Item) -> list[Item]:
    if isinstance(item, Loop):
        return [Loop(item.variable, without_sorts(item.body))]
    return _counted(item) if isinstance(item, Sort) else [item]


def _counted(s: Sort) -> list[Item]:
    """For each element, how many others go before it; equal ones stay in order."""
    i, j = Variable(s.along.extent), Variable(s.along.extent)
    here, there = (_at(s, v) for v in (i, j))
    count = Buffer("rank", NdArrayType((), Dtype.int64), Space.REGISTER)
    before = Compute(Greater() if s.descending else Less(), Dtype.bool, (there, here))
    earlier = Compute(Less(), Dtype.bool, (_number(j), _number(i)))
    same = Compute(Equal(), Dtype.bool, (there, here))
    first = Compute(Or(), Dtype.bool, (before, Compute(And(), Dtype.bool, (same, earlier))))
    counted = Compute(Cast(Dtype.bool, Dtype.int64), Dtype.int64, (first,))
    rank: Index = index(Read(Load(count, ()), s.along.extent))
    indices = tuple(each.substitute({s.along: rank}) for each in s.indices)
    zero = Number(Constant(NdArrayType((), Dtype.int64), 0))
    body: list[Item] = [
        Store(count, (), zero),
        *nested([j], [Accumulate(count, (), Add(), counted)]),
        Store(s.buffer, indices, _number(i)),
    ]
    return nested([i], body)


def _at(s: Sort, v: Variable) -> Scalar:
    return Load(s.keys.buffer, tuple(each.substitute({s.along: index(v)}) for each in s.keys.indices))


def _number(v: Variable) -> IndexValue:
    return IndexValue(index(v), Dtype.int64)
