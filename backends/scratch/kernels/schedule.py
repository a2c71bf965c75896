"""Schedules: the passes that prepare a kernel for a script, and their limits in nanoseconds.

An iteration of a loop costs as much as three multiplications, an index that is not constant as much as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catgrad.loops.ir.nest import Item, Kernel, Loop
from catgrad.loops.machine import Machine
from catgrad.loops.passes.schedule.expand_sorts import expand_sorts
from catgrad.loops.passes.schedule.interchange_sums import interchange_sums
from catgrad.loops.passes.schedule.unroll_by_cost import Unrolling, is_sum, unroll_by_cost
from catgrad.loops.passes.simplify.bind import binder
from catgrad.loops.passes.simplify.fold_constants import fold_constants
from catgrad.loops.passes.simplify.forward_substitute import forward_substitute
from catgrad.loops.passes.simplify.reassociate import reassociate_products

from .cost import ScriptCosts, of_items
from .legalise import legalise

MIN_INTERCHANGED_ITERATIONS = 8
"""Iterations of a loop around a sum from which on interchange pays."""

MAX_EXPRESSION_DEPTH = 48
"""Limit of nested operations, beyond which editors may overflow their stack."""

BIND = binder(ScriptCosts(), loaded="")


@dataclass(frozen=True)
class Schedule:
    """Limits of unrolling, of fusion, and of the blocks of a script.

    Nests are not fused if one pass over their statements costs more than `fused_ns`. Scripts of more than
    `script_blocks` are split where possible, because TurboWarp runs only short custom blocks fast.
    """

    unrolling: Unrolling
    fused_ns: int
    script_blocks: int

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        """Unroll, substitute, fold and legalise a kernel for its script."""
        items = unroll_by_cost(expand_sorts(kernel.body), self.unrolling)
        items = forward_substitute(interchange_sums(items, MIN_INTERCHANGED_ITERATIONS), MAX_EXPRESSION_DEPTH)
        return Kernel(legalise(reassociate_products(fold_constants(items))))

    def fits(self, loop: Loop, item: Loop) -> bool:
        """Tell whether two nests may be fused without a script that is too long."""
        return self._unrolled_cost([loop]) + self._unrolled_cost([item]) <= self.fused_ns

    def _unrolled_cost(self, items: Sequence[Item]) -> int:
        """Estimate the cost of running each statement once, with short sums unrolled."""
        total = 0
        for item in items:
            if not isinstance(item, Loop):
                total += of_items([item])
                continue
            once, count = self._unrolled_cost(item.body), int(item.variable.extent)
            total += min(once * count, max(once, self.unrolling.strip)) if is_sum(item) else once
        return total


def _schedule(sum: int, strip: int, loop: int, outermost: int, joined: int, blocks: int) -> Schedule:
    return Schedule(Unrolling(of_items, sum, strip, loop, outermost, joined), 16_000, blocks)


SCHEDULES = {
    "compact": _schedule(sum=3_000, strip=2_500, loop=0, outermost=0, joined=0, blocks=150),
    "auto": _schedule(sum=14_000, strip=11_000, loop=1_500, outermost=1_500, joined=0, blocks=150),
    "predict": _schedule(sum=14_000, strip=11_000, loop=1_500, outermost=20_000, joined=6_000, blocks=150),
    "max": _schedule(sum=14_000, strip=11_000, loop=20_000, outermost=200_000, joined=6_000, blocks=240),
}
"""Schedules by the option `unroll`; "predict" is "auto" for a sprite that does not train."""
