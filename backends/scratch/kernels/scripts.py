"""Print kernels as scripts: code motion, common subexpressions, and stores to lists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from itertools import count

from catgrad.loops.ir.dense_stores import densely_stored
from catgrad.loops.ir.index import Variable
from catgrad.loops.ir.nest import (
    Accumulate,
    Check,
    Item,
    Kernel,
    Loop,
    Statement,
    Store,
    loops,
    scalars,
    statements,
)
from catgrad.loops.ir.scalar import Buffer, Compute, IndexValue, Load, Number, Scalar
from catgrad.naming import Namer
from catgrad.ops.arithmetic import Add, Minimum
from catgrad.ops.bits import BitAnd
from catgrad.ops.random import RandomBits
from catgrad.printing.dialect import Dialect
from catgrad.types import Dtype, NdArrayType

from . import cost
from .expressions import Expressions
from .inductions import LETTERS, OUTER_LETTERS, Inductions
from .spelling import WRAPS, of_sum
from .texts import Append, Call, Change, Clear, Expression, If, Line, Repeat, Replace, Require, Set, reporters

HOISTED, MAX_HOISTED_ITEMS = "kept", 64
"""The list in which a script keeps elements that all iterations of a loop read, and how many items it has."""

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
        items = kernel.body
        self.items, self.macros, self._given, self._is_taken = items, dialect.macros, name_of, is_taken
        self.namer = Namer(LETTERS + OUTER_LETTERS)
        self.names: dict[Buffer, str] = {}
        self.inductions = Inductions(dialect.macros, outer)
        changed = {array for s in statements(items) for array, _ in s.writes}
        self.expressions = Expressions(dialect, self.inductions, self._name, changed, scaled)
        self.items_hoisted = 0
        self.appended = set(densely_stored(items))
        arrays = dict.fromkeys(a for s in statements(items) for a, _ in (*s.reads, *s.writes))
        for array in sorted(arrays, key=lambda a: a.is_register):  # lists first: registers avoid their names
            self._name(array)

    def lines(self) -> tuple[Line, ...]:
        """Return the script."""
        begin: list[Line] = [Clear(self._name(array)) for array in sorted(self.appended, key=self._name)]
        return (*begin, *self._block(self.items))

    def _name(self, array: Buffer) -> str:
        if not array.is_register:
            return self._given(array)
        if array not in self.names:
            self.names[array] = self._fresh(array.name)
        return self.names[array]

    def _fresh(self, stem: str) -> str:
        names = (self.macros["local"](self.namer.fresh(stem)) for _ in count())
        return next(name for name in names if not self._is_taken(name))

    def _block(self, items: Sequence[Item]) -> list[Line]:
        self.expressions.known.append({})
        lines: list[Line] = []
        run: list[Statement] = []
        for item in items:
            if isinstance(item, Loop):
                lines += self._straight(run)
                run = []
                lines += self._loop(item)
            else:
                run.append(item)
        lines += self._straight(run)
        self.expressions.known.pop()
        return lines

    def _loop(self, loop: Loop) -> list[Line]:
        self.expressions.known.append({})
        items_hoisted = self.items_hoisted
        hoisted = self._hoisted(loop)
        self._written(loop)
        self.inductions.open(loop.variable)
        inside = self._block(loop.body)
        before, after = self.inductions.close()
        self._written(loop)
        self.items_hoisted = items_hoisted
        self.expressions.known.pop()
        return [*hoisted, *before, Repeat(str(loop.variable.extent), (*inside, *after))]

    def _written(self, loop: Loop) -> None:
        for array in {array for s in statements([loop]) for array, _ in s.writes}:
            self.expressions.written(array)

    def _hoisted(self, loop: Loop) -> list[Line]:
        """Loop-invariant code motion: compute before a loop what all its iterations would compute alike."""
        inside = {each.variable for each in loops([loop])}
        written = {a.home for s in statements([loop]) for a, _ in s.writes}
        count = int(loop.variable.extent)
        found: dict[int, Scalar] = {}
        for s in statements([loop]):
            for scalar in scalars(s):
                for part in _largest(scalar, lambda node: _stays(node, inside, written)):
                    if self.expressions.name(part) is None and self._pays_to_hoist(part, count):
                        found.setdefault(self.expressions.key(part), part)
        loads = [part for part in found.values() if isinstance(part, Load)]
        hoisted = self.macros["local"](HOISTED)
        in_list = len(loads) >= MIN_HOISTED_ITEMS and self.items_hoisted + len(loads) <= MAX_HOISTED_ITEMS
        lines: list[Line] = []
        for part in found.values():
            if in_list and isinstance(part, Load):
                self.items_hoisted += 1
                text, place = self.expressions.stored(part), str(self.items_hoisted)
                lines.append(Replace(hoisted, place, text))
                self.expressions.give(part, Expression(self.macros["item"](hoisted, place), 1))
            else:
                lines += self._named(part)
        return lines

    def _pays_to_hoist(self, part: Scalar, iterations: int) -> bool:
        if isinstance(part, (Number, IndexValue)) or part.dtype is Dtype.bool or cost.is_variable(part):
            return False
        price = cost.of(part)
        return iterations * (price - cost.VARIABLE_NS) > price + cost.STACK_NS

    def _named(self, scalar: Scalar) -> list[Line]:
        """Set a variable to a scalar."""
        lines = self._called(scalar)
        if self.expressions.name(scalar) is not None:
            return lines
        if isinstance(scalar, Compute):
            wish = scalar.op.result or scalar.op.macro.lower()
        else:
            wish = scalar.buffer.name if isinstance(scalar, Load) else "value"
        text, name = self.expressions.text(scalar, fresh=True), self._fresh(wish)
        self.expressions.give(scalar, self.macros["variable"](name))
        return [*lines, Set(name, text)]

    def _called(self, scalar: Scalar) -> list[Line]:
        """Call the custom blocks that compute parts of a scalar: random numbers and operations on bits."""
        if self.expressions.name(scalar) is not None:
            return []
        lines = [line for operand in scalar.operands for line in self._called(operand)]
        if isinstance(scalar, Compute) and isinstance(scalar.op, (RandomBits, BitAnd)):
            name, type = self._fresh(scalar.op.result), NdArrayType((), scalar.dtype)
            arguments = tuple(map(self.expressions.text, scalar.operands))
            lines.append(Call(self.macros["called"](scalar.op, type), arguments=arguments))
            wraps = WRAPS.get(scalar.dtype, 0) if isinstance(scalar.op, BitAnd) else 0
            lines.append(Set(name, Expression(self.macros["returned"](scalar.op, type), wraps)))
            self.expressions.give(scalar, self.macros["variable"](name))
        return lines

    def _straight(self, run: Sequence[Statement]) -> list[Line]:
        """Print straight-line code, with variables for common subexpressions."""
        counts = self._counts(run)
        lines: list[Line] = []
        for k, s in enumerate(run):
            for scalar in scalars(s):
                lines += [*self._shared(scalar, counts), *self._called(scalar)]
            lines += self._statement(s, run[k + 1 :])
        return lines

    def _counts(self, run: Sequence[Statement]) -> Counter[int]:
        """Count how often each scalar is computed; a statement reads what those before it have written."""
        counts: Counter[int] = Counter()
        versions, epoch = dict(self.expressions.versions), self.expressions.epoch
        for s in run:
            for scalar in scalars(s):
                self._count(scalar, counts, 1)
            for array, _ in s.writes:
                self.expressions.written(array)
        self.expressions.versions, self.expressions.epoch = versions, epoch
        return counts

    def _count(self, scalar: Scalar, counts: Counter[int], times: int) -> None:
        key = self.expressions.key(scalar)
        first = key not in counts
        counts[key] += times
        if first:
            for position, operand in enumerate(scalar.operands):
                again = cost.times(scalar, position) if isinstance(scalar, Compute) else 1
                self._count(operand, counts, again)

    def _shared(self, scalar: Scalar, counts: Counter[int]) -> list[Line]:
        """Set variables to common subexpressions of a scalar that are worth one, the inner ones first."""
        if self.expressions.name(scalar) is not None:
            return []
        lines = [line for operand in scalar.operands for line in self._shared(operand, counts)]
        uses, price = counts[self.expressions.key(scalar)], self._price(scalar)
        saved = uses * (price - cost.VARIABLE_NS) - price - cost.STACK_NS
        if saved > 0 and scalar.dtype is not Dtype.bool and not isinstance(scalar, Number):
            lines += self._named(scalar)
        return lines

    def _price(self, scalar: Scalar) -> int:
        """Estimate an expression, with the variables there are."""
        if isinstance(scalar, Compute):
            parts = (
                cost.times(scalar, n) * (cost.VARIABLE_NS if self.expressions.name(o) else self._price(o))
                for n, o in enumerate(scalar.operands)
            )
            return cost.REPORTER_NS * cost.weight(scalar) + sum(parts)
        return cost.of(scalar)

    def _statement(self, s: Statement, later: Sequence[Statement]) -> list[Line]:
        if isinstance(s, Check):
            computed = isinstance(s.scalar, Compute) and self.expressions.name(s.scalar) is None
            lines = self._named(s.scalar) if computed else []
            return [*lines, Require(self.expressions.text(s.scalar), str(s.size))]
        assert isinstance(s, (Store, Accumulate))  # products and sorts are loops here
        if isinstance(s, Store) and _is_itself(s):
            self.expressions.written(s.buffer)
            return []
        if isinstance(s, Accumulate):
            lines = self._update(s)
        elif not s.buffer.order:
            lines = [Set(self._name(s.buffer), self.expressions.stored(s.scalar, s.buffer))]
        else:
            return self._element(s, later)
        self.expressions.written(s.buffer)
        return lines

    def _update(self, s: Accumulate) -> list[Line]:
        named = not isinstance(s.op, Add) and self._price(s.scalar) > cost.VARIABLE_NS
        lines = self._named(s.scalar) if named and self.expressions.name(s.scalar) is None else []
        return [*lines, self._updated(s)]

    def _updated(self, s: Accumulate) -> Line:
        text = self.expressions.stored(s.scalar, s.buffer, s.op.macro)
        target = self.expressions.element(s.buffer, s.indices)
        if not isinstance(s.op, Add):
            sign = "is_less" if isinstance(s.op, Minimum) else "is_greater"
            count = 1 + reporters(text) + reporters(target)
            return If(Expression(self.macros[sign](text, target), count), (self._put(s, text),))
        if not s.buffer.order and not cost.wraps(s.buffer.type.dtype):
            return Change(self._name(s.buffer), text)
        dtype = s.buffer.type.dtype
        total = self.macros["sum"](NdArrayType((), dtype), target, text)
        return self._put(s, Expression(total, of_sum(dtype, target, text)))

    def _put(self, s: Accumulate, text: str) -> Line:
        if not s.buffer.order:
            return Set(self._name(s.buffer), text)
        return Replace(self._name(s.buffer), self.inductions.at(s.buffer.flat(s.indices)), text)

    def _element(self, s: Store, later: Sequence[Statement]) -> list[Line]:
        """Store an element, which is a variable as well if it is read often afterwards."""
        lines: list[Line] = []
        again = sum(a is s.buffer and i == s.indices for t in later for a, i in t.reads)
        price = cost.REPORTER_NS + cost.of_index(s.buffer.flat(s.indices))
        known = self.expressions.name(s.scalar)
        if (
            known is None
            and again * (price - cost.VARIABLE_NS) > cost.STACK_NS
            and not isinstance(s.scalar, Number)
        ):
            lines += self._named(s.scalar)
            known = self.expressions.name(s.scalar)
        name, text = self._name(s.buffer), self.expressions.stored(s.scalar, s.buffer)
        if s.buffer in self.appended:
            line: Line = Append(name, text)
        else:
            line = Replace(name, self.inductions.at(s.buffer.flat(s.indices)), text)
        self.expressions.written(s.buffer)
        if known is not None:
            self.expressions.give(Load(s.buffer, s.indices), known)
        return [*lines, line]


def _is_itself(s: Store) -> bool:
    """Tell whether a store writes the value that is there already."""
    old = s.scalar
    return isinstance(old, Load) and old.buffer.home is s.buffer.home and old.indices == s.indices


def _largest(scalar: Scalar, holds: Callable[[Scalar], bool]) -> list[Scalar]:
    """Find the largest parts of which something holds."""
    if holds(scalar):
        return [scalar]
    return [part for operand in scalar.operands for part in _largest(operand, holds)]


def _stays(node: Scalar, inside: set[Variable], written: set[Buffer]) -> bool:
    if not inside.isdisjoint(node.variables):
        return False
    return all(load.buffer.home not in written for load in node.loads())
