"""Loops written out: a short sum becomes one expression, a long one parts that share what they read.

A turn of a loop costs as much as three multiplications, an index that is no number as much as one.
"""

from __future__ import annotations

from collections.abc import Sequence

from catgrad.loops.index import ZERO, Index, Variable, index
from catgrad.loops.nest import Define, Item, Loop, Statement, Update, statements, substituted
from catgrad.loops.scalar import Compute, Load, Number, Scalar, Stored
from catgrad.loops.turns import is_number
from catgrad.ops.arithmetic import Add
from catgrad.structural import Constant
from catgrad.types import NdArrayType

from .cost import REPORTER, STACK, of

ROW = 40
"""Terms of a sum in one expression: with more, a custom block outgrows what TurboWarp makes fast."""

PART = 32
"""Terms of each part of a sum that has more."""

FEW = 8
"""Turns of a loop around a sum from which on it pays to keep what all of them read."""


def written_out(items: Sequence[Item], most: int) -> list[Item]:
    """Items whose short loops are written out, as far as their turns take `most` nanoseconds together."""
    return [new for item in items for new in _written_out(item, most)]


def _written_out(item: Item, most: int) -> list[Item]:
    if not isinstance(item, Loop):
        return [item]
    loop = Loop(item.variable, written_out(item.body, most))
    if not loop.body or loop.variable.extent == 0:
        return []
    if any(isinstance(each, Loop) for each in loop.body):
        return _shared(loop)
    count = int(loop.variable.extent)
    if not _is_sum(loop):
        return _turns(loop, range(count)) if count * _cost(loop.body) <= most else [loop]
    terms = max(1, ROW // len(loop.body))
    return _turns(loop, range(count)) if count <= terms else _in_parts(loop, max(1, PART // len(loop.body)))


def _is_sum(loop: Loop) -> bool:
    """Whether turns do nothing but add to numbers."""
    return all(isinstance(s, Update) and isinstance(s.op, Add) and not s.array.order for s in loop.body)


def _cost(items: Sequence[Item]) -> int:
    parts = list(statements(items))
    return sum(
        STACK + of(s.scalar) + len(s.writes) * REPORTER for s in parts if isinstance(s, (Define, Update))
    )


def _turns(loop: Loop, turns: Sequence[int], start: Index = ZERO) -> list[Item]:
    """These turns of a loop, counted from `start`, one after the other."""
    return [substituted(each, {loop.variable: start + turn}) for turn in turns for each in loop.body]


def _in_parts(loop: Loop, terms: int) -> list[Item]:
    """A sum as a loop over parts of so many terms, or a few less if no rest is left then, and the rest."""
    count = int(loop.variable.extent)
    terms = next((n for n in range(terms, terms // 2, -1) if count % n == 0), terms)
    parts = Variable(count // terms)
    whole = Loop(parts, _turns(loop, range(terms), index(parts) * terms))
    return [whole, *_turns(loop, range(count - count % terms, count))]


def _shared(loop: Loop) -> list[Item]:
    """A loop around one sum in parts as a loop over parts around it, if its turns then share what they read.

    Each part reads some elements once and for all turns, and adds to all sums; they need a list.
    """
    places = [k for k, each in enumerate(loop.body) if isinstance(each, Loop)]
    if len(places) != 1 or int(loop.variable.extent) < FEW:
        return [loop]
    place = places[0]
    before, inner, after = loop.body[:place], loop.body[place], loop.body[place + 1 :]
    assert isinstance(inner, Loop)
    updated = {s.array for s in inner.body if not isinstance(s, Loop) for s in [s] if isinstance(s, Update)}
    if len(updated) != 1 or not _is_sum(inner) or not _begins(before, updated) or not _shares(inner, loop):
        return [loop]
    [total] = updated
    count = next(
        (k for k, s in enumerate(after) if not (isinstance(s, Update) and s.array is total)), len(after)
    )
    return _exchanged(loop, inner, total, after[:count], after[count:])


def _begins(before: Sequence[Item], updated: set[Stored]) -> bool:
    return len(before) == 1 and all(
        isinstance(s, Define) and s.array in updated and isinstance(s.scalar, Number) for s in before
    )


def _shares(inner: Loop, loop: Loop) -> bool:
    """Whether there is what a part reads at the same places in every turn of the loop around it."""
    loads = [load for s in statements(inner.body) if isinstance(s, Update) for load in s.scalar.loads()]
    return any(loop.variable not in load.variables and inner.variable in load.variables for load in loads)


def _exchanged(
    loop: Loop, inner: Loop, total: Stored, rest: Sequence[Item], after: Sequence[Item]
) -> list[Item]:
    own = loop.variable
    sums = Stored(f"{total.name}s", NdArrayType((own.extent,), total.type.dtype))
    zero = Number(Constant(NdArrayType((), total.type.dtype), 0))
    first = _sum(rest, zero)

    def over(statement: Statement) -> Loop:
        again = Variable(own.extent)
        return Loop(again, [substituted(statement, {own: index(again)})])

    begin = over(Define(sums, (index(own),), first))
    parts = Loop(inner.variable, [over(Update(sums, (index(own),), Add(), _sum(inner.body)))])
    end = Variable(own.extent)
    finished = [Define(total, (), Load(sums, (index(own),))), *after]
    return [begin, parts, Loop(end, [substituted(each, {own: index(end)}) for each in finished])]


def _sum(updates: Sequence[Item], start: Scalar | None = None) -> Scalar:
    terms = [s.scalar for s in updates if isinstance(s, Update)]
    total = terms[0] if terms else start
    for term in terms[1:]:
        total = Compute(Add(), term.dtype, (total, term))  # type: ignore[arg-type]
    assert total is not None  # a part has terms
    return total


__all__ = ["is_number", "written_out"]
