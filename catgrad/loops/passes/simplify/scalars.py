"""Code motion of scalars: they are computed early, or within the only kernel that reads them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypeGuard

from catgrad.loops.ir.nest import Kernel, Loop, MatMul, Sort, may_fail
from catgrad.loops.ir.scalar import Buffer, Space
from catgrad.loops.ir.steps import For, If, Lowered, Step, conditions, every_step
from catgrad.loops.machine import Machine


def scalars_first(lowered: Lowered, machine: Machine) -> Lowered:
    """List scheduling: kernels of scalars run directly after the last step that touches what they touch."""
    return lowered.map(_first)


def scalars_last(lowered: Lowered, machine: Machine) -> Lowered:
    """Code sinking: kernels of scalars become the beginning of the only kernel that reads their results."""
    uses = Counter[Buffer](conditions(lowered.steps))
    for step in every_step(lowered.steps):
        if not isinstance(step, For | If):
            uses.update(_reads(step) | _writes(step))
    return lowered.map(lambda steps: _Sinking(uses).run(steps))


def _first(steps: Sequence[Step]) -> list[Step]:
    """Sort steps by the last one that each must follow, which is itself unless it may move."""
    places, touched, written, barrier = list[int](), dict[Buffer, int](), dict[Buffer, int](), -1
    for number, step in enumerate(steps):
        place, reads, writes = number, _reads(step), _writes(step)
        if _is_of_scalars(step):
            before = [*(written.get(b, -1) for b in reads), *(touched.get(b, -1) for b in writes)]
            place = max(barrier, *before)
        elif not isinstance(step, Kernel) or may_fail(step.body):
            barrier = number
        places.append(place)
        touched |= {b: max(place, touched.get(b, -1)) for b in reads | writes}
        written |= dict.fromkeys(writes, place)
    return [steps[number] for number in sorted(range(len(steps)), key=lambda n: (places[n], n))]


class _Sinking:
    """Steps from the last backwards, with what each writes, and which of them touches a buffer."""

    def __init__(self, uses: Counter[Buffer]) -> None:
        self.uses = uses
        self.steps, self.written = list[Step](), list[set[Buffer]]()
        self.users: dict[Buffer, int] = {}

    def run(self, steps: Sequence[Step]) -> list[Step]:
        """Return the steps in order."""
        for step in reversed(steps):
            if _is_of_scalars(step) and (reader := self._reader(step)) is not None:
                number = reader
                self._join(step, number)
            else:
                number = len(self.steps)
                self.steps.append(step)
                self.written.append(_writes(step))
            self.users |= dict.fromkeys(_reads(step) | _writes(step), number)
        return self.steps[::-1]

    def _reader(self, step: Step) -> int | None:
        """Find the only kernel that reads what a step writes, if the step may run then."""
        if any(b.space is not Space.WORKSPACE for b in _writes(step)):
            return None
        users = {self.users.get(b) if self.uses[b] == 2 else None for b in _writes(step)}
        number = users.pop() if len(users) == 1 else None
        if number is None or not isinstance(self.steps[number], Kernel):
            return None
        between = self.written[number + 1 :]
        return number if all(_reads(step).isdisjoint(writes) for writes in between) else None

    def _join(self, step: Kernel, number: int) -> None:
        reader = self.steps[number]
        assert isinstance(reader, Kernel)
        self.uses.subtract((_reads(step) | _writes(step)) & (_reads(reader) | _writes(reader)))
        self.steps[number] = Kernel([*step.body, *reader.body])
        self.written[number] |= _writes(step)


def _is_of_scalars(step: Step) -> TypeGuard[Kernel]:
    """Tell whether a step computes single elements, and cannot fail."""
    if not isinstance(step, Kernel) or may_fail(step.body):
        return False
    return not any(isinstance(item, Loop | MatMul | Sort) for item in step.body)


def _reads(step: Step) -> set[Buffer]:
    return {buffer.home for buffer, _ in step.reads}


def _writes(step: Step) -> set[Buffer]:
    return {buffer.home for buffer, _ in step.writes}
