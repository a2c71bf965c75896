"""Loop versioning: a loop of sines runs as vectors if no argument is far from 0.

Sines of large numbers need many digits of π: languages have a function for them, of which no compiler makes
vector code. So the loop is printed twice, after a loop that looks for such an argument.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from catgrad.loops.ir.nest import Item, Let, Loop, Rewriter
from catgrad.loops.ir.scalar import Buffer, Compute, Masked, Scalar, number
from catgrad.terms.op import Op
from catgrad.types import Dtype


@dataclass(frozen=True)
class Near:
    """An operation on a number near 0."""

    of: Op

    @property
    def macro(self) -> str:
        """The name of the macro that prints it."""
        return f"Near{self.of.macro}"


@dataclass(frozen=True)
class Version:
    """A loop for arguments near 0, and what a loop before it computes to tell whether they are."""

    loop: Loop
    lets: tuple[Let, ...]
    arguments: tuple[Scalar, ...]


def near(loop: Loop, ops: Collection[type[Op]]) -> Version | None:
    """Return the version of an innermost loop in which operations of float32 have arguments near 0.

    None if it has no such operation, or if an argument depends on what the loop has written before.
    """
    change, body, lets, written = _Nearer(ops), list[Item](), list[Let](), set[Buffer]()
    for s in loop.body:
        if isinstance(s, Loop) or loop.conditions or loop.variable.step > 1:
            return None
        count = len(change.arguments)
        body.append(s.map(change))
        found = change.arguments[count:]
        if isinstance(s, Let):
            lets.append(s)
            found = [*found, s.scalar]
        if any(load.buffer.home in written for scalar in found for load in scalar.loads()):
            return None
        written |= {buffer.home for buffer, _ in s.writes}
    if not change.arguments:
        return None
    return Version(replace(loop, body=body), _needed(lets, change.arguments), tuple(change.arguments))


def _needed(lets: Sequence[Let], arguments: Sequence[Scalar]) -> tuple[Let, ...]:
    """Select the definitions of registers that arguments depend on."""
    wanted = {load.buffer for scalar in arguments for load in scalar.loads()}
    needed = list[Let]()
    for let in reversed(lets):
        if let.buffer in wanted:
            needed.insert(0, let)
            wanted |= {load.buffer for load in let.scalar.loads()}
    return tuple(needed)


class _Nearer(Rewriter):
    """Replace operations by those on numbers near 0, and collect their arguments."""

    def __init__(self, ops: Collection[type[Op]]) -> None:
        super().__init__()
        self.ops, self.arguments = tuple(ops), list[Scalar]()

    def _changed(self, old: Scalar) -> Scalar:
        if isinstance(old, Masked):
            return self._masked(old)
        new = super()._changed(old)
        if isinstance(old, Compute) and isinstance(old.op, self.ops) and old.dtype.wide is Dtype.float32:
            self.arguments += [x for x in old.operands if x not in self.arguments]
            return Compute(Near(old.op), old.dtype, new.operands)  # type: ignore[arg-type]
        return new

    def _masked(self, old: Masked) -> Masked:
        """Collect the arguments of each side under its conditions: elsewhere they may not exist."""
        inside, outside = _Nearer(self.ops), _Nearer(self.ops)
        new = Masked(old.conditions, inside.scalar(old.inside), outside.scalar(old.outside))
        zero = number(0, Dtype.float32)
        self.arguments += [Masked(old.conditions, x, zero) for x in inside.arguments]
        self.arguments += [Masked(old.conditions, zero, x) for x in outside.arguments]
        return new
