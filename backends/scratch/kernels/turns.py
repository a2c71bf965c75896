"""Loops written out: a short sum becomes one expression, a long one parts that share what they read.

A turn of a loop costs as much as three multiplications, an index that is no number as much as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catgrad.loops.ir.index import ZERO, Index, Variable, index
from catgrad.loops.ir.nest import Accumulate, Item, Loop, Statement, Store, may_fail, statements, substituted
from catgrad.loops.ir.scalar import Buffer, Compute, Load, Number, Scalar
from catgrad.ops.arithmetic import Add
from catgrad.terms.structural import Constant
from catgrad.types import NdArrayType

from .cost import REPORTER, STACK, of

FEW = 8
"""Turns of a loop around a sum from which on it pays to keep what all of them read."""

FEWEST = 4
"""Turns that may become one."""


@dataclass(frozen=True)
class Unrolling:
    """How far loops are written out, in nanoseconds.

    A sum of so much as `row` is one expression: with more, a custom block outgrows what TurboWarp makes fast.
    A longer one has parts of so much as `part`. Other loops are written out if all turns take `loop`, or
    `outermost` where all places then are numbers; else a few turns are one if they take `turn`. Nests stay
    apart if what they say once takes more than `script`. Scripts of more `blocks` are cut where they can be.
    """

    loop: int
    outermost: int
    turn: int
    row: int
    part: int
    script: int
    blocks: int

    def written_out(self, items: Sequence[Item], depth: int = 0) -> list[Item]:
        """Items with their short loops written out."""
        return [new for item in items for new in self._written_out(item, depth)]

    def fit(self, loop: Loop, item: Loop) -> bool:
        """Whether two nests are one script that is not too long."""
        return self._weight([loop]) + self._weight([item]) <= self.script

    def _written_out(self, item: Item, depth: int) -> list[Item]:
        if not isinstance(item, Loop):
            return [item]
        loop = Loop(item.variable, self.written_out(item.body, depth + 1))
        if not loop.body or loop.variable.extent == 0:
            return []
        if may_fail([loop]):
            return [loop]  # a check takes many blocks, and little time
        if any(isinstance(each, Loop) for each in loop.body):
            return _shared(loop)
        count, price = int(loop.variable.extent), _cost(loop.body)
        if not _is_sum(loop):
            whole = count * price <= (self.loop if depth else self.outermost)
            return _turns(loop, range(count)) if whole else self._together(loop, price)
        short = count * price <= self.row
        return _turns(loop, range(count)) if short else _in_parts(loop, max(1, self.part // price))

    def _together(self, loop: Loop, price: int) -> list[Item]:
        """The loop with a few of its turns as one."""
        count = int(loop.variable.extent)
        turns = next(n for n in range(FEWEST, 0, -1) if count % n == 0 and (n == 1 or n * price <= self.turn))
        if turns == 1:
            return [loop]
        outer = Variable(count // turns)
        return [Loop(outer, _turns(loop, range(turns), index(outer) * turns))]

    def _weight(self, items: Sequence[Item]) -> int:
        """About how long one turn of everything takes when short sums are written out."""
        total = 0
        for item in items:
            if isinstance(item, Loop):
                once, count = self._weight(item.body), int(item.variable.extent)
                is_sum = not any(isinstance(each, Loop) for each in item.body) and _is_sum(item)
                total += min(once * count, max(once, self.part)) if is_sum else once
            else:
                total += _cost([item])
        return total


UNROLL = {
    "compact": Unrolling(0, 0, 0, 3_000, 2_500, 16_000, 150),
    "auto": Unrolling(1_500, 1_500, 0, 14_000, 11_000, 16_000, 150),
    "predict": Unrolling(1_500, 20_000, 6_000, 14_000, 11_000, 16_000, 150),
    "max": Unrolling(20_000, 200_000, 6_000, 14_000, 11_000, 16_000, 240),
}
"""By what the option says; "predict" is "auto" for a sprite that does not train, and so has fewer blocks."""


def _is_sum(loop: Loop) -> bool:
    """Whether turns do nothing but add to numbers."""
    return all(isinstance(s, Accumulate) and isinstance(s.op, Add) and not s.buffer.order for s in loop.body)


def _cost(items: Sequence[Item]) -> int:
    parts = list(statements(items))
    return sum(of(s.scalar) + _own(s) for s in parts if isinstance(s, (Store, Accumulate)))


def _own(s: Store | Accumulate) -> int:
    """What a statement costs beside its expression; one that adds to a number is an addition there."""
    return STACK + REPORTER if s.buffer.order or isinstance(s, Store) else REPORTER


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
    updated = {s.buffer for s in inner.body if isinstance(s, Accumulate)}
    if len(updated) != 1 or not _is_sum(inner) or not _begins(before, updated) or not _shares(inner, loop):
        return [loop]
    [total] = updated
    count = next(
        (k for k, s in enumerate(after) if not (isinstance(s, Accumulate) and s.buffer is total)), len(after)
    )
    return _exchanged(loop, inner, total, after[:count], after[count:])


def _begins(before: Sequence[Item], updated: set[Buffer]) -> bool:
    return len(before) == 1 and all(
        isinstance(s, Store) and s.buffer in updated and isinstance(s.scalar, Number) for s in before
    )


def _shares(inner: Loop, loop: Loop) -> bool:
    """Whether there is what a part reads at the same places in every turn of the loop around it."""
    loads = [load for s in statements(inner.body) if isinstance(s, Accumulate) for load in s.scalar.loads()]
    return any(loop.variable not in load.variables and inner.variable in load.variables for load in loads)


def _exchanged(
    loop: Loop, inner: Loop, total: Buffer, rest: Sequence[Item], after: Sequence[Item]
) -> list[Item]:
    own = loop.variable
    sums = Buffer(f"{total.name}s", NdArrayType((own.extent,), total.type.dtype))
    zero = Number(Constant(NdArrayType((), total.type.dtype), 0))
    first = _sum(rest, zero)

    def over(statement: Statement) -> Loop:
        again = Variable(own.extent)
        return Loop(again, [substituted(statement, {own: index(again)})])

    begin = over(Store(sums, (index(own),), first))
    parts = Loop(inner.variable, [over(Accumulate(sums, (index(own),), Add(), _sum(inner.body)))])
    end = Variable(own.extent)
    finished = [Store(total, (), Load(sums, (index(own),))), *after]
    return [begin, parts, Loop(end, [substituted(each, {own: index(end)}) for each in finished])]


def _sum(updates: Sequence[Item], start: Scalar | None = None) -> Scalar:
    terms = [s.scalar for s in updates if isinstance(s, Accumulate)]
    total = terms[0] if terms else start
    for term in terms[1:]:
        total = Compute(Add(), term.dtype, (total, term))  # type: ignore[arg-type]
    assert total is not None  # a part has terms
    return total
