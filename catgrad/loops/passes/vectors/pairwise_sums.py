"""Pairwise summation of the lanes of a vector: its upper half is added to its lower one, and so on.

A compiler, which may not reassociate, adds up the lanes of such a sum one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeGuard

from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.index import Variable, index
from catgrad.loops.ir.nest import Accumulate, Item, Kernel, Loop, Store, Substituted, rewritten
from catgrad.loops.ir.scalar import Load, Number
from catgrad.loops.ir.steps import Lowered
from catgrad.loops.machine import Machine
from catgrad.loops.passes.vectors.rows_of_sums import is_sum_of_floats
from catgrad.terms.structural import Constant
from catgrad.types import Dtype

LANES = 16
"""Lanes that are added up in pairs: those of partial sums."""


def pairwise_sums(lowered: Lowered, machine: Machine) -> Lowered:
    """Add up vectors of 16 elements in pairs, if the machine has as many lanes."""
    if machine.vectors.lanes != LANES or not machine.vectors.keeps_sums:
        return lowered
    return lowered.map_kernels(lambda kernel: Kernel(_in_pairs(kernel.body)))


def _in_pairs(items: Sequence[Item]) -> list[Item]:
    result: list[Item] = []
    for item in items:
        if not isinstance(item, Loop):
            result.append(item)
        elif len(items) > 1 and _adds_up(item):
            result += [_pairwise(add, item.variable) for add in item.body]
        else:
            result.append(replace(item, body=_in_pairs(item.body)))
    return _without_registers(result)


def _without_registers(items: Sequence[Item]) -> list[Item]:
    """Add sums to what their registers, which begin with 0, are added to afterwards."""
    result: list[Item] = []
    for item in items:
        match [*result[-2:], item]:
            case [
                Store(begun, (), Number(Constant(value=0))),
                Loop(axis=Axis.PAIRWISE, body=[Accumulate(register) as add]) as loop,
                Accumulate(scalar=Load(total)) as last,
            ] if begun is register is total:
                result[-2:] = [replace(loop, body=[replace(last, scalar=add.scalar)])]
            case _:
                result.append(item)
    return result


def _adds_up(loop: Loop) -> bool:
    """Tell whether a loop only adds up vectors in memory."""
    is_vector = loop.variable.extent == LANES and not loop.conditions
    return is_vector and all(_is_sum(item, loop.variable) for item in loop.body)


def _is_sum(item: Item, lane: Variable) -> TypeGuard[Accumulate]:
    if not is_sum_of_floats(item) or item.buffer.type.dtype not in (Dtype.float32, Dtype.float64):
        return False
    load = item.scalar
    return isinstance(load, Load) and load.buffer.stride(load.indices, lane) == 1


def _pairwise(add: Item, lane: Variable) -> Loop:
    own = Variable(LANES)
    return Loop(own, rewritten([add], Substituted({lane: index(own)})), axis=Axis.PAIRWISE)
