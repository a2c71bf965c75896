"""List scheduling: a topological order in which steps that free as much memory as they take run early.

Steps that read nothing, such as those that fill margins, run before the first that needs them. All others
keep their order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from typing import TypeVar

from catgrad.loops.ir.nest import Item, size_hint
from catgrad.loops.ir.scalar import Buffer, Space
from catgrad.loops.ir.steps import Step
from catgrad.loops.memory_plan import byte_size

S = TypeVar("S", bound=Step | Item)


def ordered(steps: Sequence[S], after: Mapping[int, set[int]]) -> list[S]:
    """Return the steps in an order in which each precedes those `after` it; not those on or after a cycle."""
    waiting = [0] * len(steps)
    for followers in after.values():
        for follower in followers:
            waiting[follower] += 1
    ready = _Ready(steps, after)
    for number, count in enumerate(waiting):
        if not count:
            ready.add(number)
    done = []
    while ready.numbers:
        number = ready.take()
        done.append(steps[number])
        for later in after.get(number, ()):
            waiting[later] -= 1
            if not waiting[later]:
                ready.add(later)
    return done


class _Ready:
    """The numbers of steps that may run next: a queue of all, and one of those that take no memory."""

    def __init__(self, steps: Sequence[Step | Item], after: Mapping[int, set[int]]) -> None:
        needed = (0 if step.reads else min(after.get(k, ()), default=0) for k, step in enumerate(steps))
        self._rank = [(max(number, first), number) for number, first in enumerate(needed)]
        self.temporaries = [_temporaries(step) for step in steps]
        self.users: dict[Buffer, set[int]] = defaultdict(set)
        for number, buffers in enumerate(self.temporaries):
            for buffer in buffers:
                self.users[buffer].add(number)
        self.alive: set[Buffer] = set()
        self.numbers: set[int] = set()
        self._all: list[tuple[int, int]] = []
        self._free: list[tuple[int, int]] = []

    def add(self, number: int) -> None:
        """Add a step, all whose predecessors have run."""
        self.numbers.add(number)
        heappush(self._all, self._rank[number])
        self._weigh(number)

    def _weigh(self, number: int) -> None:
        if number in self.numbers and self._growth(number) <= 0:
            heappush(self._free, self._rank[number])

    def _growth(self, number: int) -> int:
        """Return the bytes that a step allocates, less those that nothing needs after it."""
        buffers = self.temporaries[number]
        taken = sum(size for buffer, size in buffers.items() if buffer not in self.alive)
        return taken - sum(size for buffer, size in buffers.items() if len(self.users[buffer]) == 1)

    def take(self) -> int:
        """Take the first step that takes no memory, or else the first of all."""
        number = -1
        while number not in self.numbers:
            _, number = heappop(self._free or self._all)
        self.numbers.remove(number)
        for buffer in self.temporaries[number]:
            self.users[buffer].remove(number)
            if buffer not in self.alive or len(self.users[buffer]) == 1:
                self.alive.add(buffer)
                for user in self.users[buffer]:
                    self._weigh(user)
        return number


def _temporaries(step: Step | Item) -> dict[Buffer, int]:
    """Find the arrays of the workspace that a step touches, and their bytes."""
    touched = dict.fromkeys(buffer for buffer, _ in (*step.reads, *step.writes))
    return {b: size_hint(byte_size(b)) for b in touched if b.space is Space.WORKSPACE}
