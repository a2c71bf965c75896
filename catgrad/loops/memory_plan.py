"""Memory planning by first fit: buffers whose lifetimes do not overlap share memory of one workspace."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from catgrad.dims import Dim, Size, coefficients
from catgrad.loops.ir.nest import size_hint
from catgrad.loops.ir.scalar import Buffer, Space
from catgrad.loops.ir.steps import Lowered, kernels
from catgrad.types import Dtype

ALIGNMENT = 64
"""Bytes to a multiple of which offsets of arrays are rounded, where sizes are numbers."""

MAX_LOCAL_BYTES = 2**14
"""Bytes of an array that a kernel may declare locally, without an offset in the workspace."""

WIDTHS = {
    Dtype.float64: 8, Dtype.int64: 8, Dtype.float32: 4, Dtype.int32: 4, Dtype.uint32: 4,
    Dtype.float16: 2, Dtype.bfloat16: 2, Dtype.bool: 1,
}  # fmt: skip
"""Bytes of one element."""


@dataclass
class Plan:
    """Offsets of arrays in the workspace, in bytes; its size, and the peak memory.

    `scratch` are offsets in memory private to each thread, for kernels that need it.
    """

    offsets: dict[Buffer, Size] = field(default_factory=dict)
    size: Size = 0
    least: Size = 0
    scratch: dict[Buffer, Size] = field(default_factory=dict)
    scratch_size: Size = 0


def planned(lowered: Lowered) -> Plan:
    """Assign an offset to each temporary: first fit, the largest first, as low as lifetimes allow."""
    plan = Plan()
    alive = _lifetimes(lowered)
    _place_scratch(plan, lowered)
    order = sorted(alive, key=lambda a: (-size_hint(byte_size(a)), alive[a]))
    placed: list[tuple[tuple[int, int], _Range]] = []
    for array in order:
        first, last = alive[array]
        met = [range for (begin, end), range in placed if begin <= last and first <= end]
        size = rounded(byte_size(array))
        offset = _lowest(size, met)
        placed.append((alive[array], _Range.of(offset, offset + size)))
        plan.offsets[array] = offset
        plan.size = largest(plan.size, offset + size)
    plan.least = _least(alive, len(lowered.steps))
    return plan


class _Range(NamedTuple):
    """A range of bytes, and estimates of its bounds, if they are symbolic."""

    offset_hint: int
    end_hint: int
    offset: Size
    end: Size

    @staticmethod
    def of(offset: Size, end: Size) -> _Range:
        """The range between two bounds."""
        return _Range(size_hint(offset), size_hint(end), offset, end)


def byte_size(array: Buffer) -> Size:
    """Return the size of an array in bytes."""
    return array.size * WIDTHS[array.type.dtype]


def is_local(array: Buffer) -> bool:
    """Tell whether a kernel declares an array itself."""
    size = byte_size(array)
    return array.is_of_kernel and isinstance(size, int) and size <= MAX_LOCAL_BYTES


def rounded(size: Size) -> Size:
    """Round a size up to the alignment."""
    if not isinstance(size, Dim):
        return -(-size // ALIGNMENT) * ALIGNMENT
    total: Size = 0
    for monomial, coefficient in size.terms:
        unit: Size = ALIGNMENT if not monomial else 8
        term: Size = -(-coefficient // unit) * unit
        for name in monomial:
            term = term * Dim(name)
        total = total + term
    return total


def largest(a: Size, b: Size) -> Size:
    """Bound two sizes from above, whatever the symbols are: coefficient by coefficient."""
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b)
    terms: dict[tuple[str, ...], int] = {}
    for size in (a, b):
        for monomial, coefficient in size.terms if isinstance(size, Dim) else (((), size),):
            terms[monomial] = max(terms.get(monomial, 0), coefficient)
    total: Size = 0
    for monomial, coefficient in terms.items():
        term: Size = coefficient
        for name in monomial:
            term = term * Dim(name)
        total = total + term
    return total


def _at_most(a: Size, b: Size) -> bool:
    """Prove that a ≤ b, whatever the symbols are: coefficient by coefficient."""
    lower, upper = coefficients(a), coefficients(b)
    return all(lower.get(monomial, 0) <= upper.get(monomial, 0) for monomial in lower.keys() | upper.keys())


def _lowest(size: Size, met: Sequence[_Range]) -> Size:
    """Find the lowest offset that is proved to be free, among those that are free by the hints."""
    ranges, room = sorted(met, key=lambda r: r.offset_hint), size_hint(size)
    ends = list(accumulate((r.end_hint for r in ranges), max, initial=0))
    for offset in sorted(dict.fromkeys([0, *(r.end for r in met)]), key=size_hint):
        start = size_hint(offset)
        below = bisect_left(ranges, start + room, key=lambda r: r.offset_hint)
        if ends[below] <= start and all(
            _at_most(r.end, offset) if r.end_hint <= start else _at_most(offset + size, r.offset) for r in met
        ):
            return offset
    total: Size = 0
    for r in met:
        total = largest(total, r.end)
    return total


def _lifetimes(lowered: Lowered) -> dict[Buffer, tuple[int, int]]:
    alive: dict[Buffer, tuple[int, int]] = {}
    for number, step in enumerate(lowered.steps):
        for array, _ in (*step.reads, *step.writes):
            if array.space is Space.WORKSPACE:
                alive[array] = alive.get(array, (number, number))[0], number
    return alive


def _place_scratch(plan: Plan, lowered: Lowered) -> None:
    for kernel in kernels(lowered.steps):
        end: Size = 0
        for array in dict.fromkeys(array for array, _ in (*kernel.writes, *kernel.reads)):
            if array.is_of_kernel and not is_local(array):
                plan.scratch[array] = end
                end = end + rounded(byte_size(array))
        plan.scratch_size = largest(plan.scratch_size, end)


def _least(alive: dict[Buffer, tuple[int, int]], steps: int) -> Size:
    """Peak memory: the most bytes that are alive in one step."""
    begin, end = defaultdict[int, list[Buffer]](list), defaultdict[int, list[Buffer]](list)
    for array, (first, last) in alive.items():
        begin[first].append(array)
        end[last].append(array)
    now: Size = 0
    needed: Size = 0
    for number in range(steps):
        now = sum(map(byte_size, begin[number]), now)
        if size_hint(now) > size_hint(needed):
            needed = now
        now = now - sum(map(byte_size, end[number]), 0)
    return needed
