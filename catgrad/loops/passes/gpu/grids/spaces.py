"""Memory spaces within a kernel: registers of a thread, shared memory of a team, or the workspace."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.nest import Item, Kernel, Loop, Replaced, rewritten
from catgrad.loops.ir.scalar import Buffer, Space
from catgrad.loops.machine import BLOCK, WARP, Machine
from catgrad.loops.memory_plan import byte_size
from catgrad.loops.passes.gpu.grids.threads import is_uniform
from catgrad.loops.passes.gpu.sums.serial import one_thread

MAX_PRIVATE_BYTES = 2**10
"""Bytes of arrays that a thread keeps for itself."""


def with_spaces(kernel: Kernel, machine: Machine, own: Collection[Buffer] = ()) -> Kernel:
    """Choose the space of each array that is private to a kernel, and the threads that assign it.

    Arrays that are each thread's `own` stay in its registers.
    """
    uses = dict[Buffer, _Uses]()
    _collect(kernel.body, None, uses)
    [loop] = kernel.body
    assert isinstance(loop, Loop)
    teams = BLOCK // WARP if loop.axis is Axis.WARP else 1
    new, shared, private = dict[Buffer, Buffer](), 0, 0
    chosen = ((buffer, use) for buffer, use in uses.items() if buffer not in own)
    for buffer, use in sorted(chosen, key=lambda pair: _hint(pair[0], machine)):
        bytes = _hint(buffer, machine)
        if use.is_of_team:
            shared += bytes * teams
            fits = shared <= machine.gpu.shared_bytes
            new[buffer] = replace(buffer, space=Space.SHARED) if fits else _in_workspace(buffer)
        elif buffer.space is Space.LOCAL:
            private += bytes
            if private > MAX_PRIVATE_BYTES:
                new[buffer] = _in_workspace(buffer)
    return Kernel(_assigned(rewritten(kernel.body, Replaced(new)) if new else kernel.body))


@dataclass
class _Uses:
    """The uses of a buffer: the loops over threads that contain them, and whether these write it."""

    loops: list[Loop | None] = field(default_factory=list)
    is_written_by_threads: bool = False
    is_exchanged: bool = False

    @property
    def is_of_team(self) -> bool:
        """Tell whether threads exchange values through it."""
        return self.is_written_by_threads and not self.is_exchanged and len(self.loops) > 1


def _collect(items: Sequence[Item], around: Loop | None, uses: dict[Buffer, _Uses]) -> None:
    for item in items:
        if isinstance(item, Loop):
            shares = item.axis is Axis.THREAD and around is None
            _collect(item.body, item if shares else around, uses)
            continue
        written = {b for b, _ in item.writes}
        for buffer in dict.fromkeys(b for b, _ in (*item.reads, *item.writes)):
            if buffer.is_of_kernel:
                use = uses.setdefault(buffer, _Uses())
                use.loops += [] if around in use.loops else [around]
                use.is_written_by_threads |= around is not None and buffer in written
                use.is_written_by_threads |= buffer in written and not buffer.is_register
                use.is_exchanged |= item.exchanges


def _in_workspace(buffer: Buffer) -> Buffer:
    return replace(buffer, space=Space.WORKSPACE, order=tuple(range(buffer.type.rank)))


def _hint(buffer: Buffer, machine: Machine) -> int:
    size = byte_size(buffer)
    return size if isinstance(size, int) else machine.gpu.shared_bytes + 1


def _assigned(items: Sequence[Item]) -> list[Item]:
    """Let one thread of a team run the statements that write memory, those in sequence as one loop."""
    done, alone = list[Item](), list[Item]()
    for item in items:
        before, alone = alone, []
        if isinstance(item, Loop) and item.axis not in (Axis.GRID, Axis.THREAD):
            done.append(replace(item, body=_assigned(item.body)))
        elif isinstance(item, Loop) or is_uniform(item):
            done.append(item)
        else:
            if before:
                done.pop()
            alone = [*before, item]
            done.append(one_thread(alone))
    return done
