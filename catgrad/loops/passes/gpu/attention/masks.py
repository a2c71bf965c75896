"""Masks of tiles: most tiles have none, as none of their pairs is outside.

    for each tile:
        scores = …
        if the tile crosses the diagonal:      alike for all threads
            scores = -inf above the diagonal

The same for the edge of a window, and for the end of the columns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from catgrad.loops.ir.index import ZERO, Index, Variable, is_below, is_natural
from catgrad.loops.ir.nest import Item, Loop
from catgrad.loops.ir.scalar import Bounds


def one_sided(conditions: Sequence[Bounds]) -> Iterator[Bounds]:
    """Split conditions into those of one side each."""
    for each in conditions:
        if each.below:
            yield replace(each, above=False)
        if each.above:
            yield replace(each, below=False)


def where_violated(condition: Bounds, pairs: Collection[Variable], items: list[Item]) -> list[Item]:
    """Run items if a condition of one side does not hold for all pairs of a tile, unless that is known."""
    violated = _violated(condition, pairs)
    return items if always_holds(violated) else [Loop(Variable(1, "tile"), items, conditions=(violated,))]


def always_holds(condition: Bounds) -> bool:
    """Prove a condition of one side, whatever the symbols are."""
    index, size = condition.index, condition.size
    return is_natural(index) if condition.below else is_below(index, size)


def _violated(condition: Bounds, pairs: Collection[Variable]) -> Bounds:
    """Return the condition that the pair next to an edge, or behind it, is outside."""
    at, size = condition.index, condition.size
    if condition.below:
        return Bounds(_extreme(at, pairs, -1), 0, False, True)
    return Bounds(_extreme(at, pairs, 1) - size, 0, True, False)


def _extreme(at: Index, pairs: Collection[Variable], sign: int) -> Index:
    """Return the least or the greatest value of an index among the pairs of a tile."""
    values = dict[Variable, Index]()
    for variable in pairs:
        coefficient, extent = at.coefficient(variable), variable.extent
        assert isinstance(coefficient, int) and isinstance(extent, int)
        values[variable] = ZERO + (extent - 1) if coefficient * sign > 0 else ZERO
    return at.substitute(values)
