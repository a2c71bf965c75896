"""Which values are stored: those that are costly and read more than once, and those that loops must end for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from catgrad.block import blocks
from catgrad.loops.element import AFFINE_VIEWS, GENERATORS, VIEWS, Source
from catgrad.op import Op
from catgrad.ops.contract import Contract
from catgrad.ops.gather import Gather
from catgrad.ops.literal import ArrayLiteral
from catgrad.ops.random import RandomBits
from catgrad.ops.reduce import Broadcast
from catgrad.ops.shape import Permute
from catgrad.ops.slices import Concat, Pad
from catgrad.ops.take import TakeAlongAxis
from catgrad.ops.window import Window
from catgrad.program import Apply, Function, Nested

COSTLY = frozenset(
    ["Exp", "Log", "Log1p", "Expm1", "Sqrt", "Sin", "Cos", "Tanh", "Erf", "Power", "Divide", "Fmod", "FloorDivide", "Remainder", "RandomBits"]
)
"""Operations that take much longer than reading an element."""

CHEAP = 2
"""Operations that may be computed again where they are read again."""

REPEATING = (Broadcast, Window, Gather, TakeAlongAxis)
"""Views that read elements more than once."""


class Choice:
    """For each value of a function, whether it is stored, and in which order of its axes."""

    def __init__(self, function: Function, given: Mapping[int, Source]) -> None:
        self.function, self.given = function, given
        self.producer = {v: apply for apply in function.body for v in apply.outputs}
        self.cost: dict[int, int] = {}
        self.leaves: dict[int, frozenset[int]] = {}
        self.orders: dict[int, tuple[int, ...]] = {}
        self._stored: set[int] = set(function.results)
        for apply in function.body:
            self._weigh(apply)
        self._uses: Counter[int] = Counter()
        self._repeated: set[int] = set()
        self._permuted: dict[int, list[Op]] = {}
        for apply in reversed(function.body):
            self._decide(apply)

    def is_stored(self, value: int) -> bool:
        """Whether a value is stored."""
        return value in self._stored

    def _weigh(self, apply: Apply) -> None:
        op, inputs, outputs = apply
        inline = op.elementwise or isinstance(op, (*VIEWS, *GENERATORS, Pad, Concat, RandomBits))
        for value in outputs:
            if not inline:
                self.cost[value], self.leaves[value] = 0, frozenset([value])
                continue
            own = 0 if isinstance(op, (*VIEWS, *GENERATORS)) else 20 if op.macro in COSTLY else 1
            self.cost[value] = min(own + sum(self.cost.get(v, 0) for v in inputs), 1000)
            leaves = frozenset[int]().union(*(self.leaves.get(v, frozenset([v])) for v in inputs))
            self.leaves[value] = leaves if len(leaves) < 9 else frozenset([value])

    def _decide(self, apply: Apply) -> None:
        op, inputs, outputs = apply
        for value in outputs:
            if self._must_store(op, value):
                self._stored.add(value)
            uses = self._permuted.get(value, [])
            if isinstance(op, Contract) and len(uses) == 1 and isinstance(uses[0], Permute):
                self.orders[value] = uses[0].order
        inline = not any(value in self._stored for value in outputs)
        if isinstance(op, Contract):
            for value in inputs:
                self._store_root(value)
        elif isinstance(op, Nested) or blocks(op):
            for value in inputs:
                if not isinstance(self._op(value), GENERATORS):
                    self._stored.add(value)
        for position, value in enumerate(inputs):
            self._permuted.setdefault(value, []).append(op)
            self._uses[value] += max(1, sum(self._uses[o] for o in outputs)) if inline else 1
            through = inline and any(o in self._repeated for o in outputs)
            first = position == 0 and isinstance(op, REPEATING)
            if through or first:
                self._repeated.add(value)

    def _must_store(self, op: Op, value: int) -> bool:
        if isinstance(op, (*VIEWS, *GENERATORS)):
            return False
        if isinstance(op, ArrayLiteral) or not (op.elementwise or isinstance(op, (Pad, Concat, RandomBits))):
            return True
        if self._is_of_scalars(value):
            return False
        if self._uses[value] <= 1 and value not in self._repeated:
            return False
        return self.cost[value] > CHEAP or len([v for v in self.leaves[value] if self._rank(v)]) > 1

    def _is_of_scalars(self, value: int) -> bool:
        return not self._rank(value) and all(not self._rank(v) for v in self.leaves[value])

    def _store_root(self, value: int) -> None:
        """The operand of a matrix product is read in place; views of it that are affine are too."""
        while value in self.producer and value not in self._stored:
            op = self._op(value)
            if not isinstance(op, AFFINE_VIEWS):
                self._stored.add(value)
            else:
                (value,) = self.producer[value].inputs

    def _op(self, value: int) -> Op | None:
        return self.producer[value].op if value in self.producer else None

    def _rank(self, value: int) -> int:
        return self.function.types[value].rank
