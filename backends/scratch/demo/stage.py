"""Monitors on the stage of a project."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from catgrad.programs.ports import Role
from catgrad.programs.program import Program
from catgrad.types import Array

from ..compile.classes import Classes
from ..compile.interface import Interface
from .examples import Examples

COLUMN, BESIDE, WIDTH = 278, 380, 98
"""Positions of monitors, in pixels from the left of the stage (480 x 360), and the width of lists."""

LINE, SLIDER, END = 28, 46, 325
"""Heights of a monitor and of one with a slider, and the end of the column."""

FITTING = 20
"""The maximum size of an input that is shown on the stage."""


@dataclass(frozen=True)
class Shown:
    """A monitor; `most` is the maximum of its slider, a list has a size."""

    kind: str
    name: str
    place: tuple[int, int]
    size: tuple[int, int] | None = None
    most: float | None = None


def monitors(
    program: Program,
    interface: Interface,
    first: Mapping[str, Array],
    examples: Examples | None,
    classes: Classes | None,
) -> list[Shown]:
    """Place the monitors: training in a column, input and output side by side, the error at the bottom."""
    names = ["steps"] * bool(examples) + ["loss"] * bool(interface.step)
    names += ["accuracy"] * bool(classes and classes.label)
    shown = [Shown("variable", name, (COLUMN, 5 + LINE * n)) for n, name in enumerate(names)]
    y = 5 + LINE * len(shown)
    for slot in program.tables.get(Role.STATE, ()) if interface.step else ():
        if slot.name == "learning_rate":
            rate = float(first[slot.name].item())
            shown.append(Shown("variable", "learning rate", (COLUMN, y), most=_end(rate)))
            y += SLIDER if _end(rate) else LINE
    if classes and classes.names:
        shown.append(Shown("variable", "guess", (COLUMN, y)))
        y += LINE
    return [*shown, *_lists(interface, y), Shown("variable", "error", (5, 332))]


def _end(rate: float) -> float | None:
    """Return the maximum of the slider of the learning rate, in steps of 0.01; None for smaller rates."""
    return round(2 * rate, 2) if rate >= 0.05 else None


def _lists(interface: Interface, y: int) -> list[Shown]:
    inputs, outputs = interface.first.inputs, interface.first.outputs[:1]
    if len(inputs) != 1 or inputs[0][1].size > FITTING:
        return [Shown("list", name, (COLUMN, y), (2 * WIDTH, END - y)) for name, _ in outputs]
    places = zip((*inputs, *outputs), (COLUMN, BESIDE), strict=False)
    return [Shown("list", name, (x, y), (WIDTH, END - y)) for (name, _), x in places]
