"""How much a demo does between two pictures, so that it stays lively in Scratch's own virtual machine."""

from __future__ import annotations

from dataclasses import dataclass

from ..compile.classes import Classes
from ..compile.entries import Sprite
from ..compile.interface import Interface, PublicFunction
from ..kernels.cost import CALL_NS, ITERATION_NS, REPORTER_NS, STACK_NS
from ..kernels.texts import Call, If, Line, Repeat, own_reporters
from .examples import Examples

FRAME = 25_000_000
"""Nanoseconds of work in each of the 30 pictures that Scratch shows in a second."""

POINTS = 240
"""Points of a curve; one for each picture."""

ITEM = 1_000
"""Nanoseconds for a number that is read and found to be one."""

RENEWED = 400
"""Nanoseconds for a new weight that is found to be a number, and takes the place of the old one."""

SHARE = 2
"""What measuring may take: one part in so many of the time for training."""


@dataclass(frozen=True)
class Pace:
    """Steps for each point of a curve, and points for each time that accuracy is measured."""

    steps: int
    points: int

    @property
    def rounds(self) -> int:
        """How often accuracy is measured."""
        return POINTS // self.points


def pace(sprite: Sprite, interface: Interface, examples: Examples, classes: Classes | None) -> Pace:
    """The pace of a demo."""
    assert interface.step is not None  # there are examples
    steps = _round_down(FRAME // _of(sprite, interface.step))
    if classes is None or not classes.label:
        return Pace(steps, POINTS)
    measuring = examples.rows * _of(sprite, interface.first)
    wanted = SHARE * measuring // max(FRAME, steps * _of(sprite, interface.step))
    return Pace(
        steps, next((n for n in (4, 5, 6, 8, 10, 12, 15, 20, 24, 30, 40, 60, 80, 120) if n >= wanted), POINTS)
    )


def _round_down(number: int) -> int:
    """The greatest of 1, 2, 5, 10, 20, 50, ... that is no greater, and 1 for 0."""
    powers = (1, 10, 100, 1_000, 10_000, 100_000)
    return max(k * power for power in powers for k in (1, 2, 5) if k * power <= max(number, 1))


def _of(sprite: Sprite, function: PublicFunction) -> int:
    """Nanoseconds of predict or a step, with what it reads."""
    scripts = {definition.name: definition.lines for definition in sprite.definitions}
    read = sum(reading.value.size for reading in function.readings)
    lines = (*function.entry.forward, *function.entry.rest, *function.shows)
    renewed = sum(renewal.new.size for renewal in function.entry.renewals)
    return ITEM * read + RENEWED * renewed + sum(_duration(line, scripts) for line in lines)


def _duration(line: Line, scripts: dict[str, tuple[Line, ...]]) -> int:
    if isinstance(line, Repeat):
        return int(line.count) * (ITERATION_NS + sum(_duration(inner, scripts) for inner in line.lines))
    if isinstance(line, If):
        parts = (sum(_duration(inner, scripts) for inner in part) for part in (line.lines, line.others))
        return STACK_NS + REPORTER_NS * own_reporters(line) + max(parts)
    if isinstance(line, Call):
        return CALL_NS + sum(_duration(inner, scripts) for inner in scripts[line.name])
    return STACK_NS + REPORTER_NS * own_reporters(line)
