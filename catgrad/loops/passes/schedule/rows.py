"""Strip-mining of rows: blocks of a fixed number of iterations, and the iterations after the last block."""

from __future__ import annotations

from catgrad.loops.ir.index import Index, Variable, index, quotient
from catgrad.loops.ir.nest import Item, Loop, Substituted, nested, rewritten
from catgrad.loops.ir.scalar import Bounds


def blocks(count: Variable, size: int) -> tuple[Variable, Index]:
    """Make the variable of blocks of so many iterations, and compute the first iteration of each.

    A symbolic number of iterations has no quotient: the first iteration of each block is counted instead.
    """
    if isinstance(count.extent, int):
        number = Variable(count.extent // size)
        return number, index(number) * size
    number = Variable(count.extent - (size - 1), step=size)
    return number, index(number)


def rest(rows: Loop, size: int) -> list[Item]:
    """Return the loop over the rows after blocks; over as many as may be if their number is symbolic."""
    count = rows.variable.extent
    if not isinstance(count, int):
        row = Variable(size - 1)
        place = index(row) + quotient(Index((), count), size) * size
        body = rewritten(rows.body, Substituted({rows.variable: place}))
        return [Loop(row, body, conditions=(Bounds(place, count, False, True),))]
    row = Variable(count % size)
    left = Substituted({rows.variable: index(row) + count // size * size})
    return nested([row], rewritten(rows.body, left)) if count % size else []
