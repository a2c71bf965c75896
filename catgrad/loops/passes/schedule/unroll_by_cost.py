"""Loop unrolling and strip mining by a cost model.

Short loops become straight-line code. Of others, a few iterations become one; a sum to a register is
strip-mined, and each strip is unrolled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from catgrad.loops.ir.index import ZERO, Index, Variable, index
from catgrad.loops.ir.nest import Accumulate, Check, Item, Loop, substituted
from catgrad.ops.arithmetic import Add

MAX_JOINED_ITERATIONS = 4
"""Iterations of a loop that may become one where it is no sum."""


@dataclass(frozen=True)
class Unrolling:
    """Limits of unrolling, in the unit of `cost`, which estimates statements that run once.

    A sum that costs no more than `sum` is unrolled completely, a longer one in strips of about `strip`. Other
    loops are unrolled completely if all iterations cost no more than `loop`, or `outermost` where no loop is
    around them; else a few iterations become one if they cost no more than `joined`.
    """

    cost: Callable[[Sequence[Item]], int]
    sum: int
    strip: int
    loop: int
    outermost: int
    joined: int


def unroll_by_cost(items: Sequence[Item], limits: Unrolling, depth: int = 0) -> list[Item]:
    """Unroll innermost loops whose extents are numbers, and those around them that then are innermost."""
    return [new for item in items for new in _unrolled(item, limits, depth)]


def _unrolled(item: Item, limits: Unrolling, depth: int) -> list[Item]:
    if not isinstance(item, Loop):
        return [item]
    loop = replace(item, body=unroll_by_cost(item.body, limits, depth + 1))
    count, cost = loop.variable.extent, limits.cost(loop.body)
    if not loop.body or count == 0:
        return []
    if not isinstance(count, int) or any(isinstance(each, (Loop, Check)) for each in loop.body):
        return [loop]  # a check is long to write, and quick to run
    if is_sum(loop):
        length = max(1, limits.strip // max(1, cost))
        whole = count * cost <= limits.sum or length >= count
        return _iterations(loop, range(count)) if whole else _strips(loop, count, length)
    if count * cost <= (limits.loop if depth else limits.outermost):
        return _iterations(loop, range(count))
    factors = (n for n in range(MAX_JOINED_ITERATIONS, 1, -1) if count % n == 0 and n * cost <= limits.joined)
    factor = next(factors, 1)
    return [loop] if factor == 1 else _strips(loop, count, factor)


def is_sum(loop: Loop) -> bool:
    """Tell whether a loop does nothing but add to registers."""
    return all(isinstance(s, Accumulate) and isinstance(s.op, Add) and not s.buffer.order for s in loop.body)


def _iterations(loop: Loop, numbers: Sequence[int], start: Index = ZERO) -> list[Item]:
    """Write these iterations of a loop, counted from `start`, one after the other."""
    return [substituted(each, {loop.variable: start + n}) for n in numbers for each in loop.body]


def _strips(loop: Loop, count: int, length: int) -> list[Item]:
    """Cut a loop into strips of this length, or of a few iterations less if no rest is left then."""
    length = next((n for n in range(length, length // 2, -1) if count % n == 0), length)
    strip = Variable(count // length)
    whole = replace(loop, variable=strip, body=_iterations(loop, range(length), index(strip) * length))
    return [whole, *_iterations(loop, range(count - count % length, count))]
