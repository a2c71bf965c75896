"""Horizontal fusion: small kernels that do not depend on each other are parts of one grid.

So are those of the classes of a fold's elements, whatever their size: each leaves the last wave half empty.
"""

from __future__ import annotations

from collections.abc import Sequence

from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.dependence import are_apart
from catgrad.loops.ir.nest import Access, Item, Kernel, Loop, loops, may_fail
from catgrad.loops.ir.scalar import GLOBAL, Buffer, Space
from catgrad.loops.ir.steps import For, Group, Lowered, Step, kernels
from catgrad.loops.machine import BLOCK, SHARED_BYTES, WARP, Machine
from catgrad.loops.memory_plan import byte_size
from catgrad.loops.passes.gpu.products.ring import RING_BYTES
from catgrad.loops.passes.gpu.products.warpgroups import elsewhere

MAX_BLOCKS = 256
"""Blocks of kernels that are launched at once: more occupy a GPU alone."""

MAX_PARTS = 8
"""Nests in one kernel, at most: more are hard to read."""


def launch_side_by_side(lowered: Lowered, machine: Machine) -> Lowered:
    """Join each small kernel with the earliest that it may run beside; initial values are computed once."""
    return lowered if lowered.function.kind.is_initial else lowered.map(_joined)


def _joined(steps: Sequence[Step]) -> list[Step]:
    done: list[Step] = []
    for step in steps:
        place = _place(step, done)
        if place is None:
            done.append(step)
        else:
            done[place] = _beside(done[place], step)
    return done


def _place(step: Step, done: Sequence[Step]) -> int | None:
    """Find the earliest kernel that a step fits beside, with no dependence on those from there on."""
    found = None
    for place in range(len(done) - 1, -1, -1):
        first = done[place]
        if not isinstance(step, Kernel) or isinstance(first, For) or not are_independent(first, step):
            break
        if isinstance(first, Kernel) and _fits(first, step):
            found = place
    return found


def are_independent(first: Step, second: Step) -> bool:
    """Prove that neither of two steps writes what the other touches, nor fails where the other does not."""
    if any(not isinstance(step, Kernel | For | Group) for step in (first, second)):
        return False
    if any(may_fail(kernel.body) for kernel in kernels([first, second])):
        return False
    touched = [[*step.reads, *step.writes] for step in (first, second)]
    return _miss(first.writes, touched[1]) and _miss(second.writes, touched[0])


def _miss(written: Sequence[Access], touched: Sequence[Access]) -> bool:
    """Prove that no element is both written and touched."""
    places: dict[Buffer, list[Access]] = {}
    for access in touched:
        places.setdefault(access[0].home, []).append(access)
    return all(
        buffer is other and are_apart(buffer, indices, at)
        for buffer, indices in written
        for other, at in places.get(buffer.home, ())
    )


def _fits(first: Kernel, second: Kernel) -> bool:
    parts = [item for kernel in (first, second) for item in kernel.body]
    sizes = [count_blocks(item) if isinstance(item, Loop) else None for item in parts]
    threads = {_threads(item) for item in parts if isinstance(item, Loop)}
    if None in sizes or len(threads) > 1 or len(parts) > MAX_PARTS:
        return False
    shared = [*map(_shared_bytes, parts)]
    small = sum(n or 0 for n in sizes) <= MAX_BLOCKS and sum(shared) <= SHARED_BYTES
    return small or (_are_classes(parts) and max(shared) <= RING_BYTES)


def _are_classes(parts: Sequence[Item]) -> bool:
    """Tell whether nests write classes of the elements of one array, none of them by warp groups."""
    written = {b for item in parts for b, _ in item.writes if b.space in GLOBAL}
    return len(written) == 1 and not any(loop.axis is Axis.EITHER for loop in loops(parts))


def _threads(loop: Loop) -> int:
    return BLOCK if loop.axis is Axis.WARP else loop.threads


def count_blocks(loop: Loop) -> int | None:
    """Count the blocks of a nest; None if a symbol decides it."""
    axis, iterations, item = loop.axis, 1, loop
    while isinstance(item, Loop) and item.axis is axis:
        extent = item.variable.extent
        if not isinstance(extent, int):
            return None
        iterations *= -(-extent // item.variable.step)
        item = item.body[-1]  # type: ignore[assignment]
    per_block = {Axis.GRID: loop.threads, Axis.WARP: BLOCK // WARP}.get(axis, 1)
    return -(-iterations // per_block)


def _shared_bytes(item: object) -> int:
    assert isinstance(item, Loop)
    own = {b for b, _ in (*item.reads, *item.writes) if b.space is Space.SHARED}
    total = sum((byte_size(b) for b in own), 0)
    teams = BLOCK // WARP if item.axis is Axis.WARP else 1
    return teams * total if isinstance(total, int) else SHARED_BYTES + 1


def _beside(first: Step, second: Step) -> Kernel:
    assert isinstance(first, Kernel) and isinstance(second, Kernel)
    return Kernel(elsewhere([*first.body, *second.body]))  # warp groups need blocks of their own
