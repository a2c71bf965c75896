"""Loop collapsing and unrolling: contiguous nests become one loop, other short loops straight-line code."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

from catgrad.loops.ir.index import ZERO, Index, Modulo, Quotient, Variable
from catgrad.loops.ir.nest import (
    Item,
    Kernel,
    Loop,
    MatMul,
    Sort,
    Statement,
    Substituted,
    rewritten,
    scalars,
    statements,
)
from catgrad.loops.ir.scalar import IndexValue, Masked
from catgrad.loops.machine import Machine

MAX_UNROLLED_ITERATIONS, MAX_UNROLLED_STATEMENTS = 4, 16
"""Limits of complete unrolling, so that the loop around can be vectorised."""


def unroll(kernel: Kernel, machine: Machine) -> Kernel:
    """Collapse and unroll the loops of a kernel."""
    return Kernel([_unrolled_within(item, depth=0) for item in kernel.body])


def _unrolled_within(item: Item, depth: int) -> Item:
    if not isinstance(item, Loop):
        return item
    loop = replace(item, body=[_unrolled_within(each, depth + 1) for each in item.body])
    # Threads share outermost loops, so these are left as they are, unless what is within is short.
    whole = collapsed(loop) if depth or any(_iterations(each) for each in loop.body) else None
    return whole or replace(loop, body=[new for each in loop.body for new in _unrolled(each)])


def _unrolled(item: Item) -> list[Item]:
    """The iterations of a short innermost loop, one after the other."""
    count = _iterations(item)
    if not count or not isinstance(item, Loop):
        return [item]
    iterations = (Substituted({item.variable: Index((), number)}) for number in range(count))
    return [new for change in iterations for new in rewritten(item.body, change)]


def _iterations(item: Item) -> int:
    """Count the iterations of a loop to unroll; 0 for any other item."""
    if not isinstance(item, Loop) or any(isinstance(each, (Loop, MatMul, Sort)) for each in item.body):
        return 0
    if not _is_plain(item):
        return 0
    count = item.variable.extent
    # Statements around an empty loop may be needed by it alone.
    if not isinstance(count, int) or not 0 < count <= MAX_UNROLLED_ITERATIONS:
        return 0
    return count if count * len(item.body) <= MAX_UNROLLED_STATEMENTS else 0


def _is_plain(loop: Loop) -> bool:
    """Tell whether a loop counts by one, and all its iterations run."""
    return not loop.conditions and loop.variable.step == 1


def collapsed(loop: Loop) -> Loop | None:
    """Collapse a perfect nest of two loops, if every index is affine in their joint counter."""
    if len(loop.body) != 1 or not isinstance(loop.body[0], Loop):
        return None
    inner = loop.body[0]
    if not (_is_plain(loop) and _is_plain(inner)):
        return None
    u, v = loop.variable, inner.variable
    if not all(_moves_on(place, u, v) for s in statements(inner.body) for place in _places(s)):
        return None
    whole = Variable(u.extent * v.extent)
    values = {u: ZERO, v: Index(((whole, 1),))}
    return Loop(whole, rewritten(inner.body, Substituted(values)))


def _moves_on(place: Index, u: Variable, v: Variable) -> bool:
    for atom, _ in place.terms:
        if isinstance(atom, (Quotient, Modulo)) and not {u, v}.isdisjoint(atom.index.variables()):
            return False
    return bool(place.coefficient(u) == place.coefficient(v) * v.extent)


def _places(s: Statement) -> list[Index]:
    """Collect the offsets at which a statement reads and writes, and the indices it computes with."""
    places = [array.flat(indices) for array, indices in (*s.reads, *s.writes)]
    for node in chain.from_iterable(scalar.nodes() for scalar in scalars(s)):
        if isinstance(node, IndexValue):
            places.append(node.index)
        elif isinstance(node, Masked):
            places += [condition.index for condition in node.conditions]
    return places
