"""What a sprite takes and gives, and where, for those who call it from outside."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from catgrad.backend import Backend
from catgrad.terms.state import Slot

from .entries import Entry, Value
from .interface import Interface

BLOCKS = {"train_step": "train step", "trained": "~read token"}
"""The custom blocks of functions that are called otherwise there."""


def manifest(
    backend: Backend,
    entries: Mapping[str, Entry],
    told: Interface | None,
    tables: Sequence[tuple[str, Slot, bool]],
) -> str:
    """For each function its custom block, and where its arguments and results lie, as JSON."""
    content = {
        "vm": backend.options.vm,
        "tables": {slot.name: {"list" if is_list else "variable": name} for name, slot, is_list in tables},
        "functions": {name: _entry(entry, told) for name, entry in entries.items()},
    }
    return json.dumps(content, indent=2)


def _entry(entry: Entry, told: Interface | None) -> dict[str, Any]:
    name = entry.function.name
    shared = dict[str, str]()
    if told is not None:
        used = told.step if name == "train_step" else told.asked[name.replace("_", " ")]
        assert used is not None  # there is a step if it is an entry
        shared = {r.value.name: r.shared for r in used.readings}
        shared |= {value.name: n for n, value in used.outputs} | {"loss": "loss"}
    return {
        "block": BLOCKS.get(name, name.replace("_", " ")) if told else BLOCKS.get(name, name),
        "takes": [_value(v, shared) for v in entry.takes],
        "gives": [_value(v, shared) for v in entry.gives],
    }


def _value(value: Value, shared: Mapping[str, str]) -> dict[str, Any]:
    place = shared.get(value.name, value.place)
    is_variable = value.is_number and (value.name not in shared or value.name == "loss")
    return {
        "name": value.name,
        "variable" if is_variable else "list": place,
        "dtype": value.type.dtype.value,
        "shape": list(value.type.shape),
    }
