"""Asynchronous copies (cp.async of PTX): stores of elements side by side, which one instruction copies."""

from __future__ import annotations

from catgrad.dims import Size, divided
from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.index import ZERO, Index, Modulo, Variable, index
from catgrad.loops.ir.nest import Loop, Store, Substituted
from catgrad.loops.ir.scalar import GLOBAL, Bounds, Load, Masked, number, unmasked

COPIED_BYTES = (16, 8, 4)
"""Bytes that a thread can copy at once to shared memory, from a multiple of as many."""


def copied(store: Store, near: Variable) -> Loop | None:
    """Copy the elements of a store, neighbours along a variable, at once; None if memory has them not so.

    Conditions hold for all of them or for none, but for one, which may hold for the first ones.
    """
    conditions, scalar = unmasked(store.scalar)
    if not isinstance(scalar, Load) or not _is_side_by_side(scalar, near):
        return None
    partial = [condition for condition in conditions if not is_uniform(condition, near)]
    if len(partial) > 1 or not all(_is_of_first(condition, near) for condition in partial):
        return None
    if conditions:
        first = Substituted({near: ZERO})
        uniform = (first.bounds(condition) for condition in conditions if condition not in partial)
        scalar = Masked((*uniform, *partial), scalar, number(0, scalar.dtype))
    return Loop(near, [Store(store.buffer, store.indices, scalar)], axis=Axis.COPY)


def _is_side_by_side(load: Load, near: Variable) -> bool:
    """Prove that elements lie side by side, the first at a multiple of their bytes."""
    buffer, width = load.buffer, near.extent
    if buffer.space not in GLOBAL or width * buffer.type.dtype.itemsize not in COPIED_BYTES:
        return False
    return width == 1 or (buffer.is_aligned and begins_at_multiple(buffer.flat(load.indices), near))


def is_uniform(condition: Bounds, near: Variable) -> bool:
    """Prove that a condition holds for all neighbours or for none."""
    if near not in {*condition.index.variables()}:
        return True
    return begins_at_multiple(condition.index, near) and _is_multiple(condition.size, near)


def _is_of_first(condition: Bounds, near: Variable) -> bool:
    """Prove that a condition holds for some neighbours only if it does for those before them."""
    rest = condition.index - index(near)
    return not condition.below and near not in {*rest.variables()}


def begins_at_multiple(place: Index, near: Variable) -> bool:
    """Prove that an index is the variable, plus a multiple of its extent."""
    rest = place - index(near)
    return near not in {*rest.variables()} and _is_whole(rest, near)


def _is_whole(place: Index, near: Variable) -> bool:
    """Prove that an index is a multiple of the extent of a variable."""
    return _is_multiple(place.constant, near) and all(
        _is_multiple(c * (atom.step if isinstance(atom, Variable) else 1), near)
        or (isinstance(atom, Modulo) and _is_multiple(atom.divisor, near) and _is_whole(atom.index, near))
        for atom, c in place.terms
    )


def _is_multiple(size: Size, near: Variable) -> bool:
    return isinstance(near.extent, int) and divided(size, near.extent) is not None
