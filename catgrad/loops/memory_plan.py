"""Memory planning by first fit: buffers whose lifetimes do not overlap share memory of one workspace."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import accumulate
from operator import add, le
from typing import NamedTuple

from catgrad.dims import Dim, Monomial, Size, coefficients, polynomial
from catgrad.loops.ir.nest import Kernel, MatMul, size_hint, statements
from catgrad.loops.ir.scalar import Buffer, Space
from catgrad.loops.ir.steps import Lowered, kernels
from catgrad.loops.machine import Packing, packs_nothing

ALIGNMENT = 64
"""Bytes to a multiple of which offsets of arrays are rounded, where sizes are numbers."""

MAX_LOCAL_BYTES = 2**14
"""Bytes of an array that a kernel may declare locally, without an offset in the workspace."""


@dataclass
class Plan:
    """Offsets of arrays in the workspace, in bytes; its size, and the peak memory.

    `scratch` are offsets in memory private to each thread, for kernels that need it. What a kernel's matrix
    products pack goes to `packed`, behind its own arrays; it needs `scratch_sizes` in all.
    """

    offsets: dict[Buffer, Size] = field(default_factory=dict)
    size: Size = 0
    least: Size = 0
    scratch: dict[Buffer, Size] = field(default_factory=dict)
    packed: dict[Kernel, Size] = field(default_factory=dict)
    scratch_sizes: dict[Kernel, Size] = field(default_factory=dict)


def planned(lowered: Lowered, unit: int = 8, packing: Packing = packs_nothing) -> Plan:
    """Assign an offset to each temporary: first fit, the largest first, as low as lifetimes allow.

    Offsets are multiples of `unit` bytes, whatever the symbols are; `packing` counts the bytes of scratch
    memory that a matrix product needs.
    """
    plan = Plan()
    _place_scratch(plan, lowered, unit, packing)
    alive = _lifetimes(lowered)
    sizes = {array: rounded(byte_size(array), unit) for array in alive}
    basis = _Basis.of(sizes.values())
    placed: list[_Range] = []  # by start
    for array in sorted(alive, key=lambda a: (-size_hint(byte_size(a)), alive[a])):
        size = basis.vector(sizes[array])
        start = _lowest(size, [r for r in placed if _overlap(r.alive, alive[array])])
        insort(placed, _Range(start, start + size, alive[array]), key=lambda r: r.start.hint)
        plan.offsets[array] = basis.size(start)
    plan.size = basis.size(reduce(_Vector.join, (r.end for r in placed), basis.vector(0)))
    plan.least = _least(alive, len(lowered.steps))
    return plan


class _Vector(NamedTuple):
    """A size as its coefficients over a basis of monomials, and its estimate.

    One is at most another, whatever the symbols are, if it is in each coordinate.
    """

    hint: int
    coordinates: tuple[int, ...]

    def __add__(self, other: _Vector) -> _Vector:  # type: ignore[override]  # vectors are not concatenated
        return _Vector(self.hint + other.hint, tuple(map(add, self.coordinates, other.coordinates)))

    def join(self, other: _Vector) -> _Vector:
        """Return the greater of the two in each coordinate."""
        return _Vector(max(self.hint, other.hint), tuple(map(max, self.coordinates, other.coordinates)))

    def meet(self, other: _Vector) -> _Vector:
        """Return the lesser of the two in each coordinate."""
        return _Vector(min(self.hint, other.hint), tuple(map(min, self.coordinates, other.coordinates)))

    def at_most(self, other: _Vector) -> bool:
        """Prove that this size is at most the other, whatever the symbols are."""
        return all(map(le, self.coordinates, other.coordinates))


class _Basis(NamedTuple):
    """The monomials of sizes, in an order."""

    monomials: tuple[Monomial, ...]

    @staticmethod
    def of(sizes: Iterable[Size]) -> _Basis:
        """Find the monomials that occur."""
        return _Basis(tuple(dict.fromkeys(monomial for size in sizes for monomial in coefficients(size))))

    def vector(self, size: Size) -> _Vector:
        """Return the vector of a size."""
        terms = coefficients(size)
        return _Vector(size_hint(size), tuple(terms.get(monomial, 0) for monomial in self.monomials))

    def size(self, vector: _Vector) -> Size:
        """Return the size of a vector."""
        return polynomial(dict(zip(self.monomials, vector.coordinates, strict=True)))


class _Range(NamedTuple):
    """A range of bytes, and the first and the last step in which it is alive."""

    start: _Vector
    end: _Vector
    alive: tuple[int, int]


def byte_size(array: Buffer) -> Size:
    """Return the size of an array in bytes."""
    return array.size * array.type.dtype.itemsize


def is_local(array: Buffer) -> bool:
    """Tell whether a kernel declares an array itself."""
    size = byte_size(array)
    return array.is_of_kernel and isinstance(size, int) and size <= MAX_LOCAL_BYTES


def rounded(size: Size, unit: int) -> Size:
    """Round a size up to the alignment, and coefficients of symbols to `unit` bytes."""
    if not isinstance(size, Dim):
        return -(-size // ALIGNMENT) * ALIGNMENT
    units = {monomial: unit if monomial else ALIGNMENT for monomial, _ in size.terms}
    return polynomial({m: -(-c // units[m]) * units[m] for m, c in size.terms})


def largest(a: Size, b: Size) -> Size:
    """Bound two sizes from above, whatever the symbols are: coefficient by coefficient."""
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b)
    first, second = coefficients(a), coefficients(b)
    return polynomial({m: max(first.get(m, 0), second.get(m, 0)) for m in first | second})


def _overlap(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return a[0] <= b[1] and b[0] <= a[1]


def _lowest(size: _Vector, ranges: Sequence[_Range]) -> _Vector:
    """Find the lowest offset proved to be free among ranges by start: 0, or the end of one."""
    zero = _Vector(0, (0,) * len(size.coordinates))
    ends = list(accumulate((r.end for r in ranges), _Vector.join, initial=zero))
    starts = list(accumulate((r.start for r in reversed(ranges)), _Vector.meet))[::-1]
    for offset in sorted({zero, *(r.end for r in ranges)}):
        end = offset + size
        below = bisect_left(ranges, end.hint, key=lambda r: r.start.hint)
        if ends[below].hint > offset.hint or not ends[below].at_most(offset):
            continue
        if below == len(ranges) or end.at_most(starts[below]):
            return offset
    return ends[-1]


def _lifetimes(lowered: Lowered) -> dict[Buffer, tuple[int, int]]:
    alive: dict[Buffer, tuple[int, int]] = {}
    for number, step in enumerate(lowered.steps):
        for array, _ in (*step.reads, *step.writes):
            if array.space is Space.WORKSPACE:
                alive[array] = alive.get(array, (number, number))[0], number
    return alive


def _place_scratch(plan: Plan, lowered: Lowered, unit: int, packing: Packing) -> None:
    for kernel in kernels(lowered.steps):
        end: Size = 0
        for array in dict.fromkeys(array for array, _ in (*kernel.writes, *kernel.reads)):
            if array.is_of_kernel and array.space is not Space.SHARED and not is_local(array):
                plan.scratch[array] = end
                end = end + rounded(byte_size(array), unit)
        plan.packed[kernel] = end
        products = (packing(s) for s in statements(kernel.body) if isinstance(s, MatMul))
        plan.scratch_sizes[kernel] = end + max(products, default=0)


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
