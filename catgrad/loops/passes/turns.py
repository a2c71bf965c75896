"""Turns of loops: which may be taken at once by vectors, and which threads may share."""

from __future__ import annotations

from collections.abc import Mapping

from catgrad.dims import Size
from catgrad.loops.ir.index import Index, Variable
from catgrad.loops.ir.nest import (
    Accumulate,
    Item,
    Loop,
    MatMul,
    Statement,
    Store,
    may_fail,
    size_hint,
    statements,
)
from catgrad.loops.ir.scalar import Buffer
from catgrad.loops.passes.fuse import is_parallel

SHARED = 2**16
"""Turns of a nest that is worth sharing among threads."""

FEW = 4
"""Turns of a loop that vectors are not worth."""


def at_once(loop: Loop, first: Mapping[Buffer, Statement]) -> list[Accumulate] | None:
    """The reductions to numbers in a loop whose turns may be taken at once; None if they may not.

    `first` are the statements that write arrays first: what a turn defines first, it has for itself.
    """
    extent, parts = loop.variable.extent, list(statements([loop]))
    if any(isinstance(item, Loop) for item in loop.body) or (isinstance(extent, int) and extent < FEW):
        return None
    own, reductions = {id(part) for part in parts}, []
    stored: list[Item] = []
    for s in parts:
        if not isinstance(s, (Store, Accumulate)):
            return None
        if is_number(s.buffer) and id(first[s.buffer]) in own:
            continue
        if isinstance(s, Accumulate) and not any(i.coefficient(loop.variable) for i in s.indices):
            reads = sum(array is s.buffer for part in parts for array, _ in part.reads)
            if not is_number(s.buffer) or reads > 1:
                return None
            reductions.append(s)
        elif is_number(s.buffer):
            return None
        else:
            stored.append(s)
    return reductions if is_parallel(Loop(loop.variable, stored)) else None


def is_worth_sharing(loop: Loop) -> bool:
    """Whether threads may share the turns of a loop, and there is enough to do in them."""
    if may_fail([loop]) or not is_parallel(loop):
        return False
    turns = size_hint(loop.variable.extent)
    return turns > 1 and turns * sum(map(work, loop.body)) >= SHARED


def work(item: Item) -> int:
    """About how many operations an item takes, of vectors in matrix products."""
    if isinstance(item, Loop):
        return size_hint(item.variable.extent) * sum(map(work, item.body))
    if isinstance(item, MatMul):
        return size_hint(item.m.extent * item.n.extent * item.k.extent) // 8
    return 1


def is_number(array: Buffer) -> bool:
    """Whether an array has become a number of its kernel."""
    return not array.order and array.place == "turn"


def step(place: Index, variable: Variable) -> Size:
    """How far a place moves on along a variable; 0 if that is not all there is to it."""
    for atom, _ in place.terms:
        if not isinstance(atom, Variable) and variable in Index(((atom, 1),)).variables():
            return 0
    return place.coefficient(variable)
