"""Loop interchange: sums that a loop computes one after the other are computed side by side.

    for i:                          for i: sums[i] = 0
        sum = 0                     for k:
        for k: sum += x[k] * w[k, i]    for i: sums[i] += x[k] * w[k, i]
        y[i] = f(sum)               for i: y[i] = f(sums[i])

Loads that do not depend on i, as x[k], then occur once for each k. The register becomes an
array (scalar expansion), and the loop three (loop distribution).

Source: Allen and Kennedy 2001, Optimizing Compilers for Modern Architectures, chapters 5 and 6
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from catgrad.loops.ir.index import Variable, index
from catgrad.loops.ir.nest import (
    Accumulate,
    Item,
    Loop,
    Statement,
    Store,
    may_fail,
    scalars,
    statements,
    substituted,
)
from catgrad.loops.ir.scalar import Buffer, Compute, Load, Scalar, is_zero
from catgrad.loops.passes.schedule.unroll_by_cost import is_sum
from catgrad.ops.arithmetic import Add
from catgrad.types import NdArrayType


@dataclass(frozen=True)
class _Sum:
    """A loop around a sum: its initialisation, the loop that accumulates, more terms, and its readers."""

    around: Loop
    first: Store
    inner: Loop
    terms: Sequence[Accumulate]
    after: Sequence[Item]


def interchange_sums(items: Sequence[Item], min_iterations: int) -> list[Item]:
    """Interchange each loop of at least `min_iterations` with the only sum in it, if they share loads."""
    result: list[Item] = []
    for item in items:
        if not isinstance(item, Loop):
            result.append(item)
            continue
        loop = replace(item, body=interchange_sums(item.body, min_iterations))
        count = loop.variable.extent
        found = _sum(loop) if isinstance(count, int) and count >= min_iterations else None
        result += _interchanged(found) if found and _shares_loads(found) and _may_move(found) else [loop]
    return result


def _sum(loop: Loop) -> _Sum | None:
    """Match a loop that sets a register to 0, adds to it in one loop and after it, and reads it."""
    if len(loop.body) < 2 or may_fail([loop]):
        return None
    first, inner, *rest = loop.body
    if not isinstance(first, Store) or not isinstance(inner, Loop) or not is_sum(inner):
        return None
    register = first.buffer
    begins = is_zero(first.scalar)
    if (
        not begins
        or any(s.buffer is not register for s in inner.body if isinstance(s, Accumulate))
        or any(isinstance(each, Loop) for each in rest)
    ):
        return None
    count = next((k for k, s in enumerate(rest) if not _adds_to(register, s)), len(rest))
    return _Sum(loop, first, inner, rest[:count], rest[count:])  # type: ignore[arg-type]


def _adds_to(register: Buffer, s: Item) -> bool:
    return isinstance(s, Accumulate) and s.buffer is register and isinstance(s.op, Add)


def _shares_loads(found: _Sum) -> bool:
    """Tell whether the sums load elements that do not depend on the loop around them."""
    around, inner = found.around.variable, found.inner.variable
    loads = [load for s in statements(found.inner.body) for scalar in scalars(s) for load in scalar.loads()]
    return any(around not in load.variables and inner in load.variables for load in loads)


def _may_move(found: _Sum) -> bool:
    """Prove that no term reads a sum, or an array that statements after an earlier sum have written."""
    written = {found.first.buffer, *(a.home for s in found.after for a, _ in s.writes)}
    terms = [s.scalar for s in (*found.inner.body, *found.terms) if isinstance(s, Accumulate)]
    return written.isdisjoint(load.buffer.home for term in terms for load in term.loads())


def _interchanged(found: _Sum) -> list[Item]:
    own, register = found.around.variable, found.first.buffer
    sums = Buffer(f"{register.name}s", NdArrayType((own.extent,), register.type.dtype))
    at = (index(own),)

    def over(*body: Statement) -> Loop:
        """Make a loop like the one around, with a new variable."""
        again = Variable(own.extent)
        return replace(found.around, variable=again, body=[substituted(s, {own: index(again)}) for s in body])

    terms = [s.scalar for s in found.terms]
    begin = over(Store(sums, at, _total(terms) if terms else found.first.scalar))
    updates = [s.scalar for s in found.inner.body if isinstance(s, Accumulate)]
    strips = replace(found.inner, body=[over(Accumulate(sums, at, Add(), _total(updates)))])
    return [begin, strips, over(Store(register, (), Load(sums, at)), *found.after)]  # type: ignore[arg-type]


def _total(terms: Sequence[Scalar]) -> Scalar:
    total, *rest = terms
    for term in rest:
        total = Compute(Add(), total.dtype, (total, term))
    return total
