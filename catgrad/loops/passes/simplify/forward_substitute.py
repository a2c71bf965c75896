"""Forward substitution: put the value of a register where it is read, if it is read once, and join sums.

A store to a register waits until the register is read. Terms that are added in the meantime join the value:
a sum that was unrolled into many statements becomes one expression.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from catgrad.loops.ir.index import Index
from catgrad.loops.ir.nest import (
    Access,
    Accumulate,
    Item,
    Loop,
    Rewriter,
    Statement,
    Store,
    scalars,
    statements,
)
from catgrad.loops.ir.scalar import Buffer, Compute, Load, Number, Scalar, is_zero
from catgrad.loops.passes.simplify.rename_registers import rename_registers
from catgrad.ops.arithmetic import Add


def forward_substitute(items: Sequence[Item], max_depth: int) -> list[Item]:
    """Substitute registers that are read once, in expressions of at most about `max_depth` nested operations.

    Additions one after the other to the same element become one, which reassociates the sum.
    """
    renamed = rename_registers(items)
    reads = _Reads()
    total = sum(map(reads.of, statements(renamed)), Counter[Buffer]())
    return _Block(reads, total, Counter(total), max_depth).run(renamed)


class _Reads:
    """Count how often statements read each register."""

    def __init__(self) -> None:
        self._known: dict[int, Counter[Buffer]] = {}

    def of(self, s: Statement) -> Counter[Buffer]:
        """Count the reads of a statement."""
        return sum(map(self._within, scalars(s)), Counter[Buffer]())

    def _within(self, scalar: Scalar) -> Counter[Buffer]:
        if scalar.number not in self._known:
            is_register = isinstance(scalar, Load) and scalar.buffer.is_register
            own = Counter([scalar.buffer] if is_register else [])  # type: ignore[attr-defined]
            self._known[scalar.number] = sum(map(self._within, scalar.operands), own)
        return self._known[scalar.number]


class _Block:
    """The items of one loop, in which stores wait.

    `waiting` are the values of registers that are not stored yet, `late` the stores that change arguments in
    place, which wait until their elements are touched; `total` counts the reads of each register, `left`
    those that are still to come.
    """

    def __init__(self, reads: _Reads, total: Counter[Buffer], left: Counter[Buffer], max_depth: int) -> None:
        self.reads, self.total, self.left, self.max_depth = reads, total, left, max_depth
        self.waiting: dict[Buffer, Scalar] = {}
        self.late: list[Store] = []
        self.done: list[Item] = []

    def run(self, items: Sequence[Item]) -> list[Item]:
        """Return the new items."""
        for item in items:
            self._flush(max((n + 1 for n, s in enumerate(self.late) if _conflict(s, item)), default=0))
            if isinstance(item, Loop):
                self._loop(item)
            elif isinstance(item, Store) and item.buffer.alias is not None:
                # By substitution it may read old elements that late stores change: it goes first.
                self.late.insert(0, self._substituted(item))  # type: ignore[arg-type]
            elif isinstance(item, (Store, Accumulate)) and item.buffer.is_register:
                self._register(item)
            else:
                self._emit(self._substituted(item))
        self._settle([a for a in self.waiting if self.left[a] > 0])
        self._flush(len(self.late))
        return self.done

    def _flush(self, count: int) -> None:
        """Emit the first `count` late stores."""
        late, self.late = self.late[:count], self.late[count:]
        for s in late:
            self._emit(s)

    def _loop(self, loop: Loop) -> None:
        touched = {a for a, _ in (*loop.reads, *loop.writes)}
        self._settle([a for a in self.waiting if a in touched or self._depends(a, touched)])
        block = _Block(self.reads, self.total, self.left, self.max_depth)
        self.done.append(replace(loop, body=block.run(loop.body)))

    def _register(self, s: Store | Accumulate) -> None:
        """Let a register's value wait, or join it with what is added."""
        s, register = self._substituted(s), s.buffer  # type: ignore[assignment]
        joins = isinstance(s, Accumulate) and isinstance(s.op, Add) and self._may_grow(register)
        if isinstance(s, Store) or joins:
            self._settle([a for a in self.waiting if a is not register and self._depends(a, {register})])
            self.waiting[register] = _sum(self.waiting[register], s.scalar) if joins else s.scalar
        else:
            self._settle([register] if register in self.waiting else [])
            self._emit(s)

    def _may_grow(self, register: Buffer) -> bool:
        return register in self.waiting and self.waiting[register].depth < self.max_depth

    def _substituted(self, s: Statement) -> Statement:
        """Substitute the registers that it alone reads, and store the others that it reads."""
        reads = self.reads.of(s)
        values: dict[Buffer, Scalar] = {}
        for register in [a for a in self.waiting if a in reads]:
            value = self.waiting[register]
            is_copy = isinstance(value, Number) or (isinstance(value, Load) and value.buffer.is_register)
            if is_copy or (self.total[register] == 1 and self._may_grow(register)):
                values[register] = value
                self.left[register] -= reads[register]
                if not self.left[register]:
                    del self.waiting[register]
            else:
                self._settle([register])
        return s.map(_Substituted(values)) if values else s

    def _emit(self, s: Statement) -> None:
        """Append a statement, joined with the one before it if both add to one element."""
        written = {array for array, _ in s.writes}
        self._settle([a for a in self.waiting if self._depends(a, written)])
        before = self.done[-1] if self.done else None
        if isinstance(s, Accumulate) and isinstance(before, Accumulate) and self._are_one(before, s):
            self.done[-1] = replace(s, scalar=_sum(before.scalar, s.scalar))
        else:
            self.done.append(s)

    def _are_one(self, before: Accumulate, s: Accumulate) -> bool:
        """Tell whether two statements add to one element, which the second does not read otherwise."""
        same = before.buffer is s.buffer and before.indices == s.indices and before.op == s.op == Add()
        reads_it = any(load.buffer is s.buffer for load in s.scalar.loads())
        return same and before.scalar.depth < self.max_depth and not reads_it

    def _depends(self, register: Buffer, arrays: set[Buffer]) -> bool:
        """Tell whether a waiting value reads one of these arrays, or one that shares its memory."""
        places = {a.home for a in arrays}
        return any(load.buffer.home in places for load in self.waiting[register].loads())

    def _settle(self, registers: Sequence[Buffer]) -> None:
        """Store registers after all."""
        for register in registers:
            self.done.append(Store(register, (), self.waiting.pop(register)))


class _Substituted(Rewriter):
    """Substitute scalars for registers."""

    def __init__(self, values: Mapping[Buffer, Scalar]) -> None:
        super().__init__()
        self.values = values

    def _changed(self, old: Scalar) -> Scalar:
        value = self.values.get(old.buffer) if isinstance(old, Load) else None
        return super()._changed(old) if value is None else value


def _conflict(late: Store, item: Item) -> bool:
    """Tell whether an item may touch the element that a late store changes, or change what that reads."""
    changed: list[Access] = [(late.buffer, late.indices)]
    return _overlap(changed, [*item.reads, *item.writes]) or _overlap(late.reads, item.writes)


def _overlap(some: Sequence[Access], others: Sequence[Access]) -> bool:
    return any(a.home is b.home and not _differ(a.flat(i), b.flat(j)) for a, i in some for b, j in others)


def _differ(x: Index, y: Index) -> bool:
    """Prove that two indices are never equal: they differ by a constant other than 0."""
    return x.terms == y.terms and x.constant != y.constant


def _sum(total: Scalar, term: Scalar) -> Scalar:
    if is_zero(total):
        return term
    return Compute(Add(), term.dtype, (total, term))
