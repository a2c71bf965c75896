"""Expand sorts for machines that have none: comparison counting, which ranks each key by those before it.

Source: Knuth 1998, The Art of Computer Programming 3, section 5.2, algorithm C
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from catgrad.loops.ir.index import Index, Read, Variable, index
from catgrad.loops.ir.nest import Accumulate, Item, Loop, Sort, Store, nested
from catgrad.loops.ir.scalar import Buffer, Compute, IndexValue, Load, Number, Scalar, Space
from catgrad.ops.arithmetic import Add
from catgrad.ops.cast import Cast
from catgrad.ops.compare import Equal, Greater, Less
from catgrad.ops.logic import And, Or
from catgrad.terms.structural import Constant
from catgrad.types import Dtype, NdArrayType


def expand_sorts(items: Sequence[Item]) -> list[Item]:
    """Replace each sort by two loops: one over elements, and one that counts the keys before each."""
    return [new for item in items for new in _expanded(item)]


def _expanded(item: Item) -> list[Item]:
    if isinstance(item, Loop):
        return [replace(item, body=expand_sorts(item.body))]
    return _ranked(item) if isinstance(item, Sort) else [item]


def _ranked(s: Sort) -> list[Item]:
    """Store each element's number at its rank; equal keys stay in order, so the sort is stable."""
    i, j = Variable(s.along.extent), Variable(s.along.extent)
    here, there = (_key(s, v) for v in (i, j))
    rank = Buffer("rank", NdArrayType((), Dtype.int64), Space.REGISTER)
    before = Compute(Greater() if s.descending else Less(), Dtype.bool, (there, here))
    earlier = Compute(Less(), Dtype.bool, (_number(j), _number(i)))
    same = Compute(Equal(), Dtype.bool, (there, here))
    first = Compute(Or(), Dtype.bool, (before, Compute(And(), Dtype.bool, (same, earlier))))
    counted = Compute(Cast(Dtype.bool, Dtype.int64), Dtype.int64, (first,))
    at: Index = index(Read(Load(rank, ()), s.along.extent))
    indices = tuple(each.substitute({s.along: at}) for each in s.indices)
    zero = Number(Constant(NdArrayType((), Dtype.int64), 0))
    body: list[Item] = [
        Store(rank, (), zero),
        *nested([j], [Accumulate(rank, (), Add(), counted)]),
        Store(s.buffer, indices, _number(i)),
    ]
    return nested([i], body)


def _key(s: Sort, v: Variable) -> Scalar:
    return Load(s.keys.buffer, tuple(each.substitute({s.along: index(v)}) for each in s.keys.indices))


def _number(v: Variable) -> IndexValue:
    return IndexValue(index(v), Dtype.int64)
