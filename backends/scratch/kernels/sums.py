"""Numbers of a kernel that need no variable: sums as one expression, and what is read but once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from catgrad.loops.ir.index import Index
from catgrad.loops.ir.nest import (
    Access,
    Accumulate,
    Check,
    Item,
    Loop,
    Rewriter,
    Statement,
    Store,
    statements,
)
from catgrad.loops.ir.scalar import Buffer, Compute, IndexValue, Load, Number, Scalar
from catgrad.ops.arithmetic import Add

DEEP = 48
"""Operations within each other, beyond which editors may run out of stack."""


def gathered(items: Sequence[Item]) -> list[Item]:
    """The items with sums as one definition each, and without numbers that are read only once."""
    single = _named_apart(items)
    return _Block(Mentions(single)).run(single)


def _named_apart(items: Sequence[Item]) -> list[Item]:
    """The items with a number of its own for each definition, as far as all are in one block."""
    blocks: dict[Buffer, set[int]] = {}
    for number, block in enumerate(_blocks(items)):
        for s in block:
            if isinstance(s, Store) and s.buffer.is_register:
                blocks.setdefault(s.buffer, set()).add(number)
    return _renamed(items, {a for a, where in blocks.items() if len(where) == 1}, {})


def _blocks(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    yield items
    for item in items:
        if isinstance(item, Loop):
            yield from _blocks(item.body)


def _renamed(items: Sequence[Item], free: Collection[Buffer], names: Mapping[Buffer, Buffer]) -> list[Item]:
    names, result = dict(names), list[Item]()
    for item in items:
        if isinstance(item, Loop):
            result.append(Loop(item.variable, _renamed(item.body, free, names)))
            continue
        s = Values({old: Load(new, ()) for old, new in names.items()}).statement(item) if names else item
        if isinstance(s, Store) and s.buffer in free:
            names[s.buffer] = replace(s.buffer)
            s = Store(names[s.buffer], s.indices, s.scalar)
        elif isinstance(s, Accumulate) and s.buffer in names:
            s = Accumulate(names[s.buffer], s.indices, s.op, s.scalar)
        result.append(s)
    return result


class Mentions:
    """How often each number of a kernel is read."""

    def __init__(self, items: Sequence[Item]) -> None:
        self._known: dict[int, Counter[Buffer]] = {}
        self.total: Counter[Buffer] = Counter()
        for s in statements(items):
            self.total += self.of(s)

    def of(self, s: Statement) -> Counter[Buffer]:
        """By a statement."""
        found: Counter[Buffer] = Counter()
        for scalar in scalars(s):
            found += self.within(scalar)
        return found

    def within(self, scalar: Scalar) -> Counter[Buffer]:
        """By an expression."""
        if scalar.number not in self._known:
            found: Counter[Buffer] = Counter()
            if isinstance(scalar, Load) and scalar.buffer.is_register:
                found[scalar.buffer] = 1
            for operand in scalar.operands:
                found += self.within(operand)
            self._known[scalar.number] = found
        return self._known[scalar.number]


def scalars(s: Statement) -> list[Scalar]:
    """What a statement computes, and what its indices read."""
    own = [s.scalar] if isinstance(s, (Store, Accumulate, Check)) else []
    at = () if isinstance(s, Check) else s.indices
    return [*own, *(IndexValue(i, own[0].dtype) for i in at if i.terms)] if own else []


class _Block:
    """The items of one loop, with definitions put off until they are needed."""

    def __init__(self, mentions: Mentions) -> None:
        self.mentions = mentions
        self.waiting: dict[Buffer, Scalar] = {}
        self.late: list[Store] = []
        self.left = Counter(mentions.total)
        self.done: list[Item] = []

    def run(self, items: Sequence[Item]) -> list[Item]:
        """The new items."""
        for item in items:
            self._write(max((n + 1 for n, s in enumerate(self.late) if _meet(s, item)), default=0))
            if isinstance(item, Loop):
                self._loop(item)
            elif isinstance(item, Store) and item.buffer.alias is not None:
                # It may read, by what was put in, old elements that those before it change: it goes first.
                self.late.insert(0, self._with_known(item))  # type: ignore[arg-type]
            elif isinstance(item, (Store, Accumulate)) and item.buffer.is_register:
                self._number(item)
            else:
                self._emit(self._with_known(item))
        self._settle([a for a in self.waiting if self.left[a] > 0])
        self._write(len(self.late))
        return self.done

    def _write(self, count: int) -> None:
        """Change the first so many of the elements that have waited until the old ones were read."""
        late, self.late = self.late[:count], self.late[count:]
        for s in late:
            self._emit(s)

    def _loop(self, loop: Loop) -> None:
        inside = list(statements([loop]))
        touched = {a for s in inside for a, _ in (*s.reads, *s.writes)}
        self._settle([a for a in self.waiting if a in touched or self._reads(a, touched)])
        block = _Block(self.mentions)
        block.left = self.left
        self.done.append(Loop(loop.variable, block.run(loop.body)))

    def _number(self, s: Store | Accumulate) -> None:
        s, array = self._with_known(s), s.buffer  # type: ignore[assignment]
        if isinstance(s, Store):
            self._settle([a for a in self.waiting if a is not array and self._reads(a, {array})])
            self.waiting[array] = s.scalar
        elif isinstance(s.op, Add) and array in self.waiting and self.waiting[array].depth < DEEP:
            self._settle([a for a in self.waiting if a is not array and self._reads(a, {array})])
            self.waiting[array] = _plus(self.waiting[array], s.scalar)
        else:
            self._settle([array] if array in self.waiting else [])
            self._emit(s)

    def _with_known(self, s: Statement) -> Statement:
        """The statement with what waits put in where it is read for the only time; the rest is settled."""
        read = self.mentions.of(s)
        put_in = {}
        for array in [a for a in self.waiting if a in read]:
            value = self.waiting[array]
            alone = self.mentions.total[array] == 1 and value.depth < DEEP
            if alone or (isinstance(value, Load) and value.buffer.is_register) or isinstance(value, Number):
                put_in[array] = value
                self.left[array] -= read[array]
                if not self.left[array]:
                    del self.waiting[array]
            else:
                self._settle([array])
        return Values(put_in).statement(s) if put_in else s

    def _emit(self, s: Statement) -> None:
        written = {array for array, _ in s.writes}
        self._settle([a for a in self.waiting if self._reads(a, written)])
        before = self.done[-1] if self.done else None
        if isinstance(s, Accumulate) and isinstance(before, Accumulate) and _are_one(before, s):
            self.done[-1] = Accumulate(s.buffer, s.indices, s.op, _plus(before.scalar, s.scalar))
        else:
            self.done.append(s)

    def _reads(self, waiting: Buffer, arrays: set[Buffer]) -> bool:
        """Whether what waits reads one of these arrays, or that whose place one takes."""
        places = {a.alias or a for a in arrays}
        return any((load.buffer.alias or load.buffer) in places for load in self.waiting[waiting].loads())

    def _settle(self, arrays: Sequence[Buffer]) -> None:
        """Store numbers after all."""
        for array in arrays:
            self.done.append(Store(array, (), self.waiting.pop(array)))


def _are_one(before: Accumulate, s: Accumulate) -> bool:
    """Whether two statements add to one element, which the second does not read otherwise."""
    same = before.buffer is s.buffer and before.indices == s.indices and before.scalar.depth < DEEP
    return (
        same and before.op == s.op == Add() and all(load.buffer is not s.buffer for load in s.scalar.loads())
    )


def _meet(late: Store, item: Item) -> bool:
    """Whether an item may touch the element that a definition changes, or change what that reads."""
    changed = [(late.buffer, late.indices)]
    touched = [*item.reads, *item.writes]
    return _overlap(changed, touched) or _overlap(late.reads, item.writes)


def _overlap(some: Sequence[Access], others: Sequence[Access]) -> bool:
    return any(
        (a.alias or a) is (b.alias or b) and not _differ(a.flat(i), b.flat(j))
        for a, i in some
        for b, j in others
    )


def _differ(x: Index, y: Index) -> bool:
    """Whether two places are never the same, as they lie a fixed way apart."""
    return x.terms == y.terms and x.constant != y.constant


def _plus(total: Scalar, term: Scalar) -> Scalar:
    if isinstance(total, Number) and total.constant.value == 0:
        return term
    return Compute(Add(), term.dtype, (total, term))


class Values(Rewriter):
    """Statements with scalars in the place of numbers."""

    def __init__(self, values: Mapping[Buffer, Scalar]) -> None:
        super().__init__()
        self.values = values

    def statement(self, s: Statement) -> Statement:
        """The statement with these values."""
        if isinstance(s, Store):
            return Store(s.buffer, self.indices(s.indices), self.scalar(s.scalar))
        if isinstance(s, Accumulate):
            return Accumulate(s.buffer, self.indices(s.indices), s.op, self.scalar(s.scalar))
        return Check(self.scalar(s.scalar), s.size) if isinstance(s, Check) else s

    def _changed(self, old: Scalar) -> Scalar:
        value = self.values.get(old.buffer) if isinstance(old, Load) else None
        return super()._changed(old) if value is None else value
