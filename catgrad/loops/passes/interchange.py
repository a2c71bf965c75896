"""Loop interchange: loops of few iterations innermost, where they are unrolled."""

from __future__ import annotations

from collections.abc import Sequence

from catgrad.loops.ir.index import Variable
from catgrad.loops.ir.nest import Item, Kernel, Loop, Store, nested, perfect_nest, size_hint
from catgrad.loops.ir.steps import Lowered
from catgrad.loops.machine import Machine
from catgrad.loops.passes.unroll import MAX_UNROLLED_ITERATIONS


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
