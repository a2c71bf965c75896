"""The pace of a demo: work between two frames, such that Scratch's virtual machine stays responsive."""

from __future__ import annotations

from dataclasses import dataclass

from ..compile.classes import Classes
from ..compile.entries import Sprite
from ..compile.interface import Interface, PublicFunction
from ..kernels.cost import CALL_NS, ITERATION_NS, REPORTER_NS, STACK_NS
from ..kernels.texts import Call, If, Line, Repeat, own_reporters
from .examples import Examples

FRAME = 25_000_000
"""Nanoseconds of work in a frame, of which Scratch shows 30 in a second."""

POINTS = 240
"""Points of a curve, one for each frame."""

ITEM = 1_000
"""Nanoseconds to read and validate a number."""

RENEWED = 400
"""Nanoseconds to validate and copy a new weight."""

SHARE = 2
"""The time for measuring accuracy is at most this fraction (1 / SHARE) of that for training."""


@dataclass(frozen=True)
class Pace:
    """Steps for each point of a curve, and points for each time that accuracy is measured."""

    steps: int
    points: int

    @property
    def rounds(self) -> int:
        """The number of measurements of accuracy."""
        return POINTS // self.points


def pace(sprite: Sprite, interface: Interface, examples: Examples, classes: Classes | None) -> Pace:
    """Return the pace of a demo."""
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
    """Round down to 1, 2, 5, 10, 20, 50, …; 0 becomes 1."""
    powers = (1, 10, 100, 1_000, 10_000, 100_000)
    return max(k * power for power in powers for k in (1, 2, 5) if k * power <= max(number, 1))


def _of(sprite: Sprite, function: PublicFunction) -> int:
    """Estimate the nanoseconds of predict or a step, with its input."""
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
