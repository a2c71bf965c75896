"""Print kernels as scripts: loops, variables for bound values, and stores to lists."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import count, takewhile

from catgrad.loops.ir.dense_stores import densely_stored
from catgrad.loops.ir.nest import Accumulate, Check, Item, Kernel, Let, Loop, Statement, Store, statements
from catgrad.loops.ir.scalar import Buffer, Compute, Load
from catgrad.naming import Namer
from catgrad.ops.arithmetic import Add, Minimum
from catgrad.ops.bits import BitAnd
from catgrad.printing.dialect import Dialect
from catgrad.types import NdArrayType

from .cost import is_called
from .expressions import Expressions
from .inductions import LETTERS, OUTER_LETTERS, Inductions
from .spelling import WRAPS, of_sum
from .texts import Append, Call, Change, Clear, Expression, If, Line, Repeat, Replace, Require, Set, reporters

HOISTED, MAX_HOISTED_ITEMS = "kept", 64
"""The list of loop-invariant elements in a script, and its number of items."""

MIN_HOISTED_ITEMS = 4
"""Elements hoisted out of a loop from which on they go into that list; fewer are quicker as variables."""


class Script:
    """The lines of one kernel."""

    def __init__(
        self,
        kernel: Kernel,
        dialect: Dialect,
        name_of: Callable[[Buffer], str],
        is_taken: Callable[[str], bool],
        outer: Inductions,
        scaled: Collection[Buffer] = (),
    ) -> None:
        self.macros, self._name_of, self._is_taken = dialect.macros, name_of, is_taken
        self.namer = Namer(LETTERS + OUTER_LETTERS)
        self.names: dict[Buffer, str] = {}
        self.inductions = Inductions(dialect.macros, outer)
        self.expressions = Expressions(dialect, self.inductions, self._name, scaled)
        self.items_hoisted = 0
        self.slots: dict[Buffer, int] = {}
        self.appended = set(densely_stored(kernel.body))
        for array in dict.fromkeys(a for s in statements(kernel.body) for a, _ in (*s.reads, *s.writes)):
            if not array.is_register:
                self._name(array)  # lists first: registers avoid their names
        self.items = kernel.body

    def lines(self) -> tuple[Line, ...]:
        """Return the script."""
        begin: list[Line] = [Clear(self._name(array)) for array in sorted(self.appended, key=self._name)]
        return (*begin, *self._block(self.items))

    def _name(self, array: Buffer) -> str:
        if not array.is_register:
            return self._name_of(array)
        if array not in self.names:
            self.names[array] = self._fresh(array.name)
        return self.names[array]

    def _fresh(self, stem: str) -> str:
        names = (self.macros["local"](self.namer.fresh(stem)) for _ in count())
        return next(name for name in names if not self._is_taken(name))

    def _block(self, items: Sequence[Item]) -> list[Line]:
        lines: list[Line] = []
        slots = self.items_hoisted
        for number, item in enumerate(items):
            if isinstance(item, Loop):
                lines += self._loop(item)
                self.items_hoisted = slots
            elif isinstance(item, Let) and item.hoisted:
                lines += self._hoisted(item, items[number:])
            else:
                lines += self._statement(item)
        return lines

    def _loop(self, loop: Loop) -> list[Line]:
        self.inductions.open(loop.variable)
        inside = self._block(loop.body)
        before, after = self.inductions.close()
        return [*before, Repeat(str(loop.variable.extent), (*inside, *after))]

    def _hoisted(self, let: Let, later: Sequence[Item]) -> list[Line]:
        """Set a variable to a loop-invariant value, or an item of a list if there are several elements."""
        if not isinstance(let.scalar, Load):
            return self._let(let)
        if let.buffer not in self.slots:
            run = takewhile(lambda item: isinstance(item, Let) and item.hoisted, later)
            loads = [s for s in run if isinstance(s, Let) and isinstance(s.scalar, Load)]
            room = self.items_hoisted + len(loads) <= MAX_HOISTED_ITEMS
            for number, s in enumerate(loads, self.items_hoisted + 1):
                self.slots[s.buffer] = number if len(loads) >= MIN_HOISTED_ITEMS and room else 0
            self.items_hoisted = max([self.items_hoisted, *(self.slots[s.buffer] for s in loads)])
        if not self.slots[let.buffer]:
            return self._let(let)
        hoisted, place = self.macros["local"](HOISTED), str(self.slots[let.buffer])
        self.expressions.bound[let.buffer] = Expression(self.macros["item"](hoisted, place), 1)
        return [Replace(hoisted, place, self.expressions.stored(let.scalar))]

    def _let(self, let: Let) -> list[Line]:
        """Set a variable to a scalar, which a custom block may compute."""
        scalar = let.scalar
        if is_called(scalar):
            assert isinstance(scalar, Compute)
            type = NdArrayType((), scalar.dtype)
            arguments = tuple(map(self.expressions.text, scalar.operands))
            call = Call(self.macros["called"](scalar.op, type), arguments=arguments)
            wraps = WRAPS.get(scalar.dtype, 0) if isinstance(scalar.op, BitAnd) else 0
            returned = Expression(self.macros["returned"](scalar.op, type), wraps)
            return [call, Set(self._name(let.buffer), returned)]
        return [Set(self._name(let.buffer), self.expressions.stored(scalar, let.buffer))]

    def _statement(self, s: Statement) -> list[Line]:
        if isinstance(s, Check):
            return [Require(self.expressions.text(s.scalar), str(s.size))]
        assert isinstance(s, (Store, Accumulate))  # products and sorts are loops here
        if isinstance(s, Accumulate):
            return [self._updated(s)]
        if _is_itself(s):
            return []
        if isinstance(s, Let):
            return self._let(s)
        text = self.expressions.stored(s.scalar, s.buffer)
        if not s.buffer.order:
            return [Set(self._name(s.buffer), text)]
        if s.buffer in self.appended:
            return [Append(self._name(s.buffer), text)]
        return [Replace(self._name(s.buffer), self.inductions.at(s.buffer.flat(s.indices)), text)]

    def _updated(self, s: Accumulate) -> Line:
        text = self.expressions.stored(s.scalar, s.buffer, s.op.macro)
        target = self.expressions.element(s.buffer, s.indices)
        if not isinstance(s.op, Add):
            sign = "is_less" if isinstance(s.op, Minimum) else "is_greater"
            count = 1 + reporters(text) + reporters(target)
            return If(Expression(self.macros[sign](text, target), count), (self._put(s, text),))
        if not s.buffer.order and s.buffer.type.dtype not in WRAPS:
            return Change(self._name(s.buffer), text)
        dtype = s.buffer.type.dtype
        total = self.macros["sum"](NdArrayType((), dtype), target, text)
        return self._put(s, Expression(total, of_sum(dtype, target, text)))

    def _put(self, s: Accumulate, text: str) -> Line:
        if not s.buffer.order:
            return Set(self._name(s.buffer), text)
        return Replace(self._name(s.buffer), self.inductions.at(s.buffer.flat(s.indices)), text)


def _is_itself(s: Store) -> bool:
    """Tell whether a store writes the value that is there already."""
    old = s.scalar
    return isinstance(old, Load) and old.buffer.home is s.buffer.home and old.indices == s.indices
