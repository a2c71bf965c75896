"""Monitors: variables and lists shown on the stage."""

from __future__ import annotations

from collections.abc import Sequence

from ..formats import names as paper
from ..language.refused import refused
from ..language.tree import Monitor
from .values import Value


def monitor(sprite: str, shown: Monitor, values: Sequence[Value]) -> dict[str, object]:
    """Return the JSON of a monitor. Raises: TextError if the sprite has no such variable or list."""
    value = _shown(shown, values)
    x, y = shown.place
    width, height = shown.size
    common = {
        "id": value.id,
        "spriteName": None if value.shared else sprite,
        "value": value.value,
        "width": width,
        "height": height,
        "x": x,
        "y": y,
        "visible": True,
    }
    if value.kind == "list":
        return common | {
            "mode": "list",
            "opcode": "data_listcontents",
            "params": {"LIST": paper.shown(value.name.name)},
        }
    low, high = shown.slider or (0, 100)
    return common | {
        "mode": "slider" if shown.slider else "default",
        "opcode": "data_variable",
        "params": {"VARIABLE": paper.shown(value.name.name)},
        "sliderMin": low,
        "sliderMax": high,
        "isDiscrete": isinstance(low, int) and isinstance(high, int),
    }


def _shown(shown: Monitor, values: Sequence[Value]) -> Value:
    for value in values:
        if (value.kind, value.name) == (shown.kind, shown.name):
            return value
    raise refused(
        shown.name.line,
        f"a monitor must show a {shown.kind} declared in its sprite",
        f"{shown.name.name} is none",
        "declare it",
    )
