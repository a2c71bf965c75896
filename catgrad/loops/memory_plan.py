"""The memory plan: every temporary array has a place in one workspace, shared with those it never meets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from catgrad.dims import Dim, Size, coefficients
from catgrad.loops.ir.nest import size_hint
from catgrad.loops.ir.scalar import Buffer, Space
from catgrad.loops.ir.steps import Lowered, kernels
from catgrad.types import Dtype

ALIGNMENT = 64
"""Bytes to a multiple of which the places of arrays are rounded, where their sizes are numbers."""

SMALL = 2**14
"""Bytes of an array that a kernel may have for itself, without a place in the workspace."""

WIDTHS = {
    Dtype.float64: 8, Dtype.int64: 8, Dtype.float32: 4, Dtype.int32: 4, Dtype.uint32: 4,
    Dtype.float16: 2, Dtype.bfloat16: 2, Dtype.bool: 1,
}  # fmt: skip
"""Bytes of one element."""


@dataclass
class Plan:
    """Where arrays lie in the workspace, in bytes; how large that is, and how much of it is needed at once.

    `scratch` are places in memory that each thread has for itself, for kernels that need it.
    """

    offsets: dict[Buffer, Size] = field(default_factory=dict)
    size: Size = 0
    least: Size = 0
    scratch: dict[Buffer, Size] = field(default_factory=dict)
    scratch_size: Size = 0


def planned(lowered: Lowered) -> Plan:
    """The places of all temporary arrays, large ones first, each as low as those it meets allow."""
    plan = Plan()
    alive = _lifetimes(lowered)
    _place_scratch(plan, lowered)
    order = sorted(alive, key=lambda a: (-size_hint(byte_size(a)), alive[a]))
    placed: list[tuple[Buffer, Size, Size]] = []
    for array in order:
        first, last = alive[array]
        met = [(o, e) for a, o, e in placed if alive[a][0] <= last and first <= alive[a][1]]
        size = rounded(byte_size(array))
        offset = _lowest(size, met)
        placed.append((array, offset, offset + size))
        plan.offsets[array] = offset
        plan.size = largest(plan.size, offset + size)
    plan.least = _least(alive, len(lowered.steps))
    return plan


def byte_size(array: Buffer) -> Size:
    """How many bytes an array takes."""
    return array.size * WIDTHS[array.type.dtype]


def is_local(array: Buffer) -> bool:
    """Whether a kernel declares an array itself."""
    size = byte_size(array)
    return array.is_of_kernel and isinstance(size, int) and size <= SMALL


def rounded(size: Size) -> Size:
    """At least so many bytes, such that the next array begins well."""
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
    """A size that is at least both, whatever the symbols are: coefficient by coefficient."""
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
    """Whether a ≤ b whatever the symbols are: coefficient by coefficient."""
    lower, upper = coefficients(a), coefficients(b)
    return all(lower.get(monomial, 0) <= upper.get(monomial, 0) for monomial in lower.keys() | upper.keys())


def _lowest(size: Size, met: Sequence[tuple[Size, Size]]) -> Size:
    for start in sorted({0, *(end for _, end in met)}, key=size_hint):
        end = start + size
        if all(_at_most(end, other) or _at_most(other_end, start) for other, other_end in met):
            return start
    total: Size = 0
    for _, end in met:
        total = largest(total, end)
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
    """The most bytes that are alive in one step."""
    needed: Size = 0
    for number in range(steps):
        now: Size = 0
        for array, (first, last) in alive.items():
            if first <= number <= last:
                now = now + byte_size(array)
        if size_hint(now) > size_hint(needed):
            needed = now
    return needed
