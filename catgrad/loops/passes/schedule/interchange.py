"""Loop interchange: short loops, which are unrolled, or loops over the terms of sums go innermost."""

from __future__ import annotations

from collections.abc import Sequence

from catgrad.loops.ir.index import Variable
from catgrad.loops.ir.nest import Accumulate, Item, Kernel, Loop, Store, nested, perfect_nest, size_hint
from catgrad.loops.ir.steps import Lowered
from catgrad.loops.machine import Machine
from catgrad.loops.passes.schedule.unroll import MAX_UNROLLED_ITERATIONS


def interchange_short_loops(lowered: Lowered, machine: Machine) -> Lowered:
    """Move short loops inwards in perfect nests around one store, whose iterations are independent."""
    return lowered.map_kernels(lambda kernel: Kernel([_interchanged(item) for item in kernel.body]))


def short_last(variables: Sequence[Variable]) -> list[Variable]:
    """Sort variables so that those of few values come last."""
    return sorted(variables, key=lambda v: size_hint(v.extent) <= MAX_UNROLLED_ITERATIONS)


def _interchanged(item: Item) -> Item:
    around, body = perfect_nest([item])
    if len(body) > 1 or not isinstance(body[0], Store) or not isinstance(item, Loop):
        return item
    [nest] = nested(short_last(around), body)
    assert isinstance(nest, Loop)
    return Loop(nest.variable, nest.body, item.begins)


def sums_innermost(items: Sequence[Item]) -> list[Item]:
    """Move loops over the terms of a sum into those over its elements: the terms of each keep their order."""
    return [each for item in items for each in _with_sum_innermost(item)]


def _with_sum_innermost(item: Item) -> list[Item]:
    around, body = perfect_nest([item], lambda loop: not loop.conditions and not loop.begins)
    s = body[0]
    if len(body) > 1 or not isinstance(s, Accumulate):
        return [item]
    is_one_iteration = all(place.variable or not place.terms for place in s.indices)
    if not is_one_iteration or any(load.buffer.home is s.buffer.home for load in s.scalar.loads()):
        return [item]
    return nested(sorted(around, key=lambda v: s.buffer.stride(s.indices, v) == 0), body)
