"""Memory planning by first fit: buffers whose lifetimes do not overlap share memory of one workspace."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from catgrad.dims import Dim, Monomial, Size, coefficients, polynomial
from catgrad.loops.ir.nest import Item, Kernel, Loop, MatMul, size_hint, statements
from catgrad.loops.ir.scalar import Buffer, Space
from catgrad.loops.ir.steps import For, Group, If, Lowered, Step, every_step, kernels
from catgrad.loops.machine import Machine, Packing, packs_nothing

_Sizes = NDArray[np.int64]

ALIGNMENT = 64
"""Bytes to a multiple of which offsets of arrays are rounded, where sizes are numbers."""

Life = tuple[int, int]
"""The first and the last step, or item of a kernel, that touch an array."""

EMPTY: Mapping[Life, Size] = {}
"""No scratch memory."""

MAX_LOCAL_BYTES = 2**14
"""Bytes of an array that a kernel may declare locally, without an offset in the workspace."""


@dataclass
class Plan:
    """Offsets of arrays in the workspace, in bytes, and its `size`.

    `alive` has the bytes of the arrays that are alive in each step; `least`, the greatest of these, is a
    lower bound of `size`.

    `scratch` are offsets in memory private to each thread, for kernels that need it, which arrays share by
    their lifetimes in an iteration. What a kernel's matrix products pack goes to `packed`, behind its own
    arrays; it needs `scratch_sizes` in all. If it `overlaps`, scratch memory is the beginning of the
    workspace, where no array lies that is alive then; else it comes on top of it.
    """

    offsets: dict[Buffer, Size] = field(default_factory=dict)
    size: Size = 0
    least: Size = 0
    alive: list[Size] = field(default_factory=list)
    scratch: dict[Buffer, Size] = field(default_factory=dict)
    packed: dict[Kernel, Size] = field(default_factory=dict)
    scratch_sizes: dict[Kernel, Size] = field(default_factory=dict)
    overlaps: bool = False

    @property
    def total(self) -> Size:
        """The bytes of the workspace with the scratch memory of one thread."""
        least: Size = 0
        return self.size + (0 if self.overlaps else reduce(largest, self.scratch_sizes.values(), least))


def planned(
    lowered: Lowered,
    unit: int = 8,
    packing: Packing = packs_nothing,
    overlaps: bool = False,
    local: int | None = None,
) -> Plan:
    """Assign an offset to each temporary: first fit, the largest first, as low as lifetimes allow.

    Offsets are multiples of `unit` bytes, whatever the symbols are; `packing` counts the bytes of scratch
    memory that a matrix product needs, and kernels declare arrays of at most `local` bytes themselves.
    """
    plan = Plan(overlaps=overlaps)
    _place_scratch(plan, lowered, unit, packing, MAX_LOCAL_BYTES if local is None else local)
    alive, steps = _lifetimes(lowered.steps, _is_of_workspace)
    plan.offsets, plan.size = _first_fit(alive, unit, _scratch(plan, lowered) if overlaps else {})
    plan.alive = _alive_bytes(alive, steps)
    plan.least = max(plan.alive, key=size_hint, default=0)
    return plan


def planned_for(lowered: Lowered, machine: Machine) -> Plan:
    """Plan the memory of a function as its machine asks for."""
    return planned(
        lowered, machine.aligned_bytes, machine.packing, machine.overlaps_scratch, machine.local_bytes
    )


class _Placed(NamedTuple):
    """Offsets of arrays, and the bytes in which all of them lie."""

    offsets: dict[Buffer, Size]
    size: Size


@dataclass
class _Ranges:
    """Ranges of bytes by start: rows of coefficients over a basis of monomials, and lifetimes.

    One size is at most another, whatever the symbols are, if it is in each coefficient.
    """

    basis: tuple[Monomial, ...]
    estimates: _Sizes
    starts: _Sizes
    ends: _Sizes
    alive: _Sizes

    @staticmethod
    def over(basis: tuple[Monomial, ...]) -> _Ranges:
        """Return no ranges."""
        estimates = np.array([size_hint(polynomial({monomial: 1})) for monomial in basis], np.int64)
        none = np.empty((0, len(basis)), np.int64)
        return _Ranges(basis, estimates, none, none, np.empty((0, 2), np.int64))

    def place(self, size: Size, alive: tuple[int, int]) -> Size:
        """Add a range of this size and lifetime at the lowest offset that is proved to be free."""
        terms = coefficients(size)
        length = np.array([terms.get(monomial, 0) for monomial in self.basis], np.int64)
        start = self._lowest(length, (self.alive[:, 0] <= alive[1]) & (self.alive[:, 1] >= alive[0]))
        row = int(np.searchsorted(self.starts @ self.estimates, start @ self.estimates, "right"))
        self.starts = np.insert(self.starts, row, start, 0)
        self.ends = np.insert(self.ends, row, start + length, 0)
        self.alive = np.insert(self.alive, row, alive, 0)
        return self._size(start)

    def _lowest(self, length: _Sizes, overlapping: NDArray[np.bool_]) -> _Sizes:
        """Find the lowest offset behind some of the ranges, and before all that begin later."""
        zero = np.zeros((1, len(self.basis)), np.int64)
        behind = np.maximum.accumulate(np.concatenate([zero, self.ends[overlapping]]))
        before = np.minimum.accumulate(self.starts[overlapping][::-1])[::-1]
        fits = (behind[:-1] + length <= before).all(1)
        lowest: _Sizes = behind[int(fits.argmax()) if fits.any() else -1]
        return lowest

    def size(self) -> Size:
        """Return the least size that all ranges lie in."""
        return self._size(self.ends.max(0, initial=0))

    def _size(self, row: _Sizes) -> Size:
        return polynomial(dict(zip(self.basis, row.tolist(), strict=True)))


def byte_size(array: Buffer) -> Size:
    """Return the size of an array in bytes."""
    return array.size * array.type.dtype.itemsize


def is_local(array: Buffer, most: int | None = None) -> bool:
    """Tell whether a kernel declares an array itself."""
    size = byte_size(array)
    most = MAX_LOCAL_BYTES if most is None else most
    return array.is_of_kernel and isinstance(size, int) and size <= most


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


def _is_of_workspace(array: Buffer) -> bool:
    return array.space is Space.WORKSPACE


def _is_on_grid(kernel: Kernel) -> bool:
    """Tell whether threads of a GPU run a kernel: what they do not share are registers of each."""
    return any(isinstance(item, Loop) and item.axis.is_concurrent for item in kernel.body)


def _is_scratch(array: Buffer, local: int) -> bool:
    is_private = array.is_of_kernel and array.space not in (Space.SHARED, Space.REGISTER)
    return is_private and not is_local(array, local)


def _lifetimes(
    steps: Sequence[Step | Item], is_placed: Callable[[Buffer], bool], start: int = 0
) -> tuple[dict[Buffer, Life], int]:
    """Find the first and the last step that touch each array, numbered from `start`, and the next number.

    An array that one loop or branch alone touches may live within an iteration of it.
    """
    touching: dict[Buffer, list[Life]] = defaultdict(list)
    inner: dict[Buffer, Life] = {}
    number = start
    for step in steps:
        first, inside = number, dict[Buffer, Life]()
        number += 1
        for part in _parts(step):
            own, number = _lifetimes(part, is_placed, number)
            for array, life in own.items():
                known = inside.get(array, life)
                inside[array] = min(known[0], life[0]), max(known[1], life[1])
        inner |= {array: life for array, life in inside.items() if _lives_within(step, array)}
        for array in dict.fromkeys(array for array, _ in (*step.reads, *step.writes)):
            if is_placed(array):
                touching[array].append((first, number - 1))
    whole = {array: (lives[0][0], lives[-1][1]) for array, lives in touching.items()}
    alone = {array: life for array, life in inner.items() if len(touching[array]) == 1}
    return whole | alone, number


def _parts(step: Step | Item) -> Sequence[Sequence[Step | Item]]:
    return step.parts if isinstance(step, If) else [step.body] if isinstance(step, For | Group | Loop) else []


def _lives_within(step: Step | Item, array: Buffer) -> bool:
    """Tell whether an array is of a branch or an iteration: contracted, or written before it is read."""
    if isinstance(step, Loop):
        indices = next(indices for buffer, indices in (*step.writes, *step.reads) if buffer is array)
        return any(step.variable is i.variable for a, i in enumerate(indices) if a not in array.order)
    return isinstance(step, If) or (isinstance(step, For) and _is_defined([step], array))


def _is_defined(steps: Sequence[Step], array: Buffer) -> bool:
    """Tell whether the first statement that touches an array writes it without reading it."""
    for step in every_step(steps):
        if isinstance(step, For | Group | If):
            continue
        for s in statements(step.body) if isinstance(step, Kernel) else [step]:
            if any(buffer is array for buffer, _ in s.reads):
                return False
            if any(buffer is array for buffer, _ in s.writes):
                return True
    return False


def _place_scratch(plan: Plan, lowered: Lowered, unit: int, packing: Packing, local: int) -> None:
    is_scratch = partial(_is_scratch, local=local)
    for kernel in kernels(lowered.steps):
        alive, _ = _lifetimes(kernel.body, is_scratch) if not _is_on_grid(kernel) else ({}, 0)
        placed = _first_fit(alive, unit)
        plan.scratch |= placed.offsets
        plan.packed[kernel] = placed.size
        products = (packing(s) for s in statements(kernel.body) if isinstance(s, MatMul))
        plan.scratch_sizes[kernel] = placed.size + max(products, default=0)


def _scratch(plan: Plan, lowered: Lowered) -> dict[Life, Size]:
    """Return the sizes of scratch memory by the steps that need it."""
    steps = _numbered(lowered.steps)[0]
    return {
        (n, n): plan.scratch_sizes[step]
        for n, step in steps
        if isinstance(step, Kernel) and plan.scratch_sizes[step] != 0
    }


def _numbered(steps: Sequence[Step], start: int = 0) -> tuple[list[tuple[int, Step]], int]:
    """Number the steps from `start` on as lifetimes do; also return the next number."""
    found, number = list[tuple[int, Step]](), start
    for step in steps:
        found.append((number, step))
        number += 1
        for part in _parts(step):
            inside, number = _numbered(part, number)  # type: ignore[arg-type]
            found += inside
    return found, number


def _first_fit(alive: dict[Buffer, Life], unit: int, scratch: Mapping[Life, Size] = EMPTY) -> _Placed:
    """Place arrays, the largest first, each as low as lifetimes allow, above scratch memory."""
    sizes = {array: rounded(byte_size(array), unit) for array in alive}
    every = (*sizes.values(), *scratch.values())
    basis = tuple(dict.fromkeys(monomial for size in every for monomial in coefficients(size)))
    ranges = _Ranges.over(basis)
    for life, size in scratch.items():
        ranges.place(rounded(size, unit), life)
    order = sorted(alive, key=lambda a: (-size_hint(byte_size(a)), alive[a]))
    offsets = {array: ranges.place(sizes[array], alive[array]) for array in order}
    return _Placed(offsets, ranges.size())


def _alive_bytes(alive: dict[Buffer, Life], steps: int) -> list[Size]:
    """Sum the bytes of the arrays that are alive in each step."""
    begin, end = defaultdict[int, list[Buffer]](list), defaultdict[int, list[Buffer]](list)
    for array, (first, last) in alive.items():
        begin[first].append(array)
        end[last].append(array)
    now: Size = 0
    sums: list[Size] = []
    for number in range(steps):
        now = sum(map(byte_size, begin[number]), now)
        sums.append(now)
        now = now - sum(map(byte_size, end[number]), 0)
    return sums


def shared_places(kernel: Kernel, buffers: Sequence[Buffer]) -> dict[Buffer, int]:
    """Place the arrays that threads share one after another, for each nest anew, as a block runs one."""
    places: dict[Buffer, int] = {}
    for item in kernel.body:
        touched = {buffer for buffer, _ in (*item.reads, *item.writes)}
        own = [buffer for buffer in buffers if buffer.space is Space.SHARED and buffer in touched]
        places |= zip(own, accumulate((size_hint(byte_size(b)) for b in own), initial=0), strict=False)
    return places
