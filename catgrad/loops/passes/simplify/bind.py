"""Bind: loop-invariant code motion and common subexpression elimination, by what registers cost a machine.

Afterwards every scalar is computed where it is used: printers neither hoist nor share.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

from catgrad.dims import Size
from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.index import Variable
from catgrad.loops.ir.nest import (
    Accumulate,
    Check,
    Item,
    Kernel,
    Let,
    Loop,
    Rewriter,
    Statement,
    Store,
    bound_variables,
    statements,
)
from catgrad.loops.ir.scalar import Buffer, Compute, IndexValue, Load, Number, Scalar, Space, reads
from catgrad.loops.ir.value_numbering import Numbering
from catgrad.loops.machine import KernelPass, Machine
from catgrad.ops.compare import Select
from catgrad.types import NdArrayType

CHARACTERS = 9
"""Estimated characters of an operation or a number."""

ELEMENT_CHARACTERS = 30
"""Estimated characters of an element: the same for all names, so that equal kernels have equal registers."""

MAX_WIDTH = 1000
"""Characters that are counted at most: written out, shared subexpressions may grow exponentially."""

IsBound = Callable[[Scalar], bool]
"""Tells whether a scalar is in a register already."""


class Costs(Protocol):
    """Cost model of registers: what recomputing costs a machine, compared with a register."""

    outlive_loops: ClassVar[bool]
    """Keep what is hoisted out of a loop in registers for what comes after it too."""

    def hoists(self, scalar: Scalar, iterations: Size) -> bool:
        """Tell whether a loop of `iterations` gains from a register for an invariant scalar."""

    def shares(self, scalar: Scalar, uses: int, is_bound: IsBound) -> bool:
        """Tell whether a scalar with this number of uses gains from a register."""

    def forwards(self, store: Store, loads: int) -> bool:
        """Tell whether a stored element with this number of later loads gains from a register."""

    def accumulates(self, s: Accumulate, is_bound: IsBound) -> bool:
        """Tell whether an accumulation gains from a register for what it combines."""

    def mentions(self, scalar: Scalar) -> Sequence[tuple[Scalar, int]]:
        """List the operands that are computed whenever a scalar is, with how often it mentions each."""

    def first(self, scalar: Scalar, is_bound: IsBound) -> Sequence[Scalar]:
        """List the parts of a scalar that must be in registers before it is computed."""


@dataclass(frozen=True)
class RegisterCosts:
    """Costs where registers are free: whatever is computed twice, or is loop-invariant, gets one.

    Expressions of more than about `longest` characters are cut. If `loads_before_choices`, what the branches
    of a choice load is loaded before it.
    """

    outlive_loops: ClassVar[bool] = True
    longest: int = 80
    loads_before_choices: bool = False

    def hoists(self, scalar: Scalar, iterations: Size) -> bool:
        """Hoist everything that is computed or loaded."""
        return not isinstance(scalar, (Number, IndexValue)) and not _is_register(scalar)

    def shares(self, scalar: Scalar, uses: int, is_bound: IsBound) -> bool:
        """Share everything that is computed or loaded more than once."""
        return uses > 1 and self.hoists(scalar, 1)

    def forwards(self, store: Store, loads: int) -> bool:
        """Forward everything that is loaded again, but for numbers."""
        return loads > 0 and not isinstance(store.scalar, Number)

    def accumulates(self, s: Accumulate, is_bound: IsBound) -> bool:
        """Nothing: it is mentioned once."""
        return False

    def mentions(self, scalar: Scalar) -> Sequence[tuple[Scalar, int]]:
        """Each operand once, but for those that are masked."""
        return [(operand, 1) for operand in scalar.always]

    def first(self, scalar: Scalar, is_bound: IsBound) -> Sequence[Scalar]:
        """Loads of a choice's branches, and the largest operand of a long expression."""
        if not isinstance(scalar, Compute):
            return []
        if isinstance(scalar.op, Select) and self.loads_before_choices:
            return list(dict.fromkeys(_loads(scalar.operands[1:], is_bound)))
        if _width(scalar, is_bound) <= self.longest:
            return []
        parts = [o for o in scalar.always if isinstance(o, Compute) and not is_bound(o)]
        return [max(parts, key=lambda o: _width(o, is_bound))] if parts else []


def binder(costs: Costs, loaded: str = "_value") -> KernelPass:
    """Make a pass that binds scalars to registers by these costs; `loaded` ends the names of elements."""

    def bind(kernel: Kernel, machine: Machine) -> Kernel:
        return Kernel(_Binder(kernel, costs, loaded).block(kernel.body))

    return bind


class _Binder:
    """Scalars that are in registers, by value number, from one block of a kernel to nested ones."""

    def __init__(self, kernel: Kernel, costs: Costs, loaded: str) -> None:
        self.costs, self.loaded = costs, loaded
        self.count = Counter(buffer for buffer, _ in kernel.writes)
        self.numbering = Numbering(self.count.keys())
        self.around: list[Size] = []

    def block(self, items: Sequence[Item]) -> list[Item]:
        """Bind the scalars of items; registers live to their end."""
        with self.numbering.scope():
            done: list[Item] = []
            run: list[Statement] = []
            for number, item in enumerate(items):
                if isinstance(item, Loop):
                    done += [*self._straight(run, items[number:]), *self._loop(item)]
                    run = []
                else:
                    run.append(item)
            return [*done, *self._straight(run)]

    def _loop(self, loop: Loop) -> list[Item]:
        if loop.axis.is_whole:
            self._written(loop)
            return [loop]
        with nullcontext() if self.costs.outlive_loops else self.numbering.scope():
            hoisted = self._hoisted(loop)
            with self.numbering.scope():
                self._written(loop)
                self.around.append(loop.variable.extent)
                body = self.block(loop.body)
                self.around.pop()
                self._written(loop)
        return [*hoisted, replace(loop, body=body)]

    def _written(self, item: Item) -> None:
        for buffer in dict.fromkeys(buffer for buffer, _ in item.writes):
            self.numbering.written(buffer)

    def _hoisted(self, loop: Loop) -> list[Item]:
        """Loop-invariant code motion: bind invariant scalars to registers before the loop."""
        inside = bound_variables([loop])
        written = {buffer.home for buffer, _ in loop.writes}
        if loop.axis is Axis.THREAD:  # all threads would load what another of them may write meanwhile
            written |= self.numbering.changing
        done: list[Item] = []
        bounded = {v for condition in loop.conditions for v in condition.index.variables()}

        def stays(load: Load) -> bool:
            runs = isinstance(loop.variable.extent, int) and not loop.conditions
            if load.buffer.home in written or not bounded.isdisjoint(load.variables):
                return False  # without the conditions, its indices may be beyond the end of an array
            return runs or self._may_load(load)

        for s in statements([loop]):
            for scalar in _scalars(s):
                for part in self._invariant(scalar, inside, stays):
                    if not self._is_bound(part) and self.costs.hoists(part, loop.variable.extent):
                        done += [*self._shared(part, Counter()), *self._let(part, hoisted=True)]
        return done

    def _may_load(self, load: Load) -> bool:
        """Prove that an element may be loaded before a loop that perhaps has no iterations.

        Then an index that is read has not been checked, and a buffer of a size that no loop around has may be
        empty.
        """
        shape = load.buffer.type.shape
        sizes = [size for size in shape if not isinstance(size, int) and size not in self.around]
        return not load.operands and not sizes and 0 not in shape

    def _invariant(
        self, scalar: Scalar, inside: set[Variable], stays: Callable[[Load], bool]
    ) -> Iterator[Scalar]:
        """Yield the largest parts that do not depend on these variables, and whose loads stay the same."""
        if inside.isdisjoint(scalar.variables) and all(map(stays, scalar.loads())):
            yield scalar
        else:
            for operand, _ in self.costs.mentions(scalar):
                yield from self._invariant(operand, inside, stays)

    def _straight(self, run: Sequence[Statement], later: Sequence[Item] = ()) -> list[Item]:
        """Common subexpression elimination in a basic block."""
        counts, done = self._counts(run), list[Item]()
        for number, s in enumerate(run):
            for scalar in _scalars(s):
                done += self._shared(scalar, counts)
            done += self._statement(s, [*run[number + 1 :], *later])
        return done

    def _counts(self, run: Sequence[Statement]) -> Counter[int]:
        """Count the mentions of each value, after the writes of earlier statements."""
        counts: Counter[int] = Counter()
        with self.numbering.trial():
            for s in run:
                for scalar in _scalars(s):
                    self._count(scalar, counts, 1)
                self._written(s)
        return counts

    def _count(self, scalar: Scalar, counts: Counter[int], times: int) -> None:
        key = self.numbering.key(scalar)
        new = key not in counts
        counts[key] += times
        if new:
            for operand, mentions in self.costs.mentions(scalar):
                self._count(operand, counts, mentions)

    def _shared(self, scalar: Scalar, counts: Counter[int]) -> list[Item]:
        """Registers for the parts of a scalar that are worth one, the innermost first."""
        if self._is_bound(scalar):
            return []
        done = [item for operand, _ in self.costs.mentions(scalar) for item in self._shared(operand, counts)]
        for part in self.costs.first(scalar, self._is_bound):
            done += self._let(part)
        if self.costs.shares(scalar, counts[self.numbering.key(scalar)], self._is_bound):
            done += self._let(scalar)
        return done

    def _is_bound(self, scalar: Scalar) -> bool:
        return self.numbering.value(scalar) is not None

    def _let(self, scalar: Scalar, hoisted: bool = False) -> list[Item]:
        """A register for a scalar, unless it has one."""
        if self._is_bound(scalar):
            return []
        register = Buffer(self._name(scalar), NdArrayType((), scalar.dtype), Space.REGISTER)
        definition = Let(register, (), _Known(self.numbering, scalar).scalar(scalar), hoisted)
        self.numbering.bind(scalar, Load(register, ()))
        return [definition]

    def _name(self, scalar: Scalar) -> str:
        if isinstance(scalar, Compute):
            return scalar.op.result or scalar.op.macro.lower()
        return scalar.buffer.name + self.loaded if isinstance(scalar, Load) else "value"

    def _statement(self, s: Statement, later: Sequence[Item]) -> list[Item]:
        """Bind what a statement needs in registers, and replace what they hold."""
        if isinstance(s, Store) and not s.buffer.is_register:
            return self._element(s, later)
        done: list[Item] = []
        if (isinstance(s, Check) and isinstance(s.scalar, Compute)) or (
            isinstance(s, Accumulate) and self.costs.accumulates(s, self._is_bound)
        ):
            done = self._let(s.scalar)
        new: Statement = s.map(_Known(self.numbering))
        if isinstance(new, Store) and self.count[new.buffer] == 1:
            new = Let(new.buffer, (), new.scalar)
        self._written(s)
        return [*done, new]

    def _element(self, s: Store, later: Sequence[Item]) -> list[Item]:
        """Store forwarding: keep the stored value in a register for later loads of the element."""
        again = sum(b is s.buffer and i == s.indices for item in later for b, i in item.reads)
        done = self._let(s.scalar) if self.costs.forwards(s, again) else []
        new = s.map(_Known(self.numbering))
        self._written(s)
        if self._is_constant(new.scalar):
            self.numbering.bind(Load(s.buffer, s.indices), new.scalar)
        return [*done, new]

    def _is_constant(self, scalar: Scalar) -> bool:
        """Tell whether it is a register that is assigned once."""
        return isinstance(scalar, Load) and scalar.buffer.is_register and self.count[scalar.buffer] <= 1


class _Known(Rewriter):
    """Replace scalars by the registers they are in; a `fresh` scalar is computed all the same."""

    def __init__(self, numbering: Numbering, fresh: Scalar | None = None) -> None:
        super().__init__()
        self.numbering, self.fresh = numbering, fresh

    def _changed(self, old: Scalar) -> Scalar:
        known = None if old is self.fresh else self.numbering.value(old)
        return super()._changed(old) if known is None else known


def _scalars(s: Statement) -> list[Scalar]:
    """The scalars that a statement computes, those that its indices read first."""
    if isinstance(s, Check):
        return [s.scalar]
    return [*reads(s.indices), s.scalar] if isinstance(s, (Store, Accumulate)) else []


def _loads(scalars: Sequence[Scalar], is_bound: IsBound) -> Iterator[Load]:
    """Yield the elements that scalars load unconditionally."""
    for scalar in scalars:
        if is_bound(scalar) or _is_register(scalar):
            continue
        if isinstance(scalar, Load):
            yield scalar
        else:
            yield from _loads(scalar.always, is_bound)


def _width(scalar: Scalar, is_bound: IsBound) -> int:
    """Estimate the characters of an expression, up to the maximum that counts."""
    width, stack = 0, [scalar]
    while stack and width < MAX_WIDTH:
        node = stack.pop()
        width += ELEMENT_CHARACTERS if isinstance(node, Load) else CHARACTERS
        if node is scalar or not is_bound(node):
            stack += node.operands
    return width


def _is_register(scalar: Scalar) -> bool:
    return isinstance(scalar, Load) and scalar.buffer.is_register
