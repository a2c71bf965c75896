"""Manifest of a sprite as JSON, for callers outside of Scratch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from catgrad.backend import Backend
from catgrad.manifest import terms_sha256
from catgrad.programs.ports import Kind, Role
from catgrad.programs.program import Program
from catgrad.terms.state import Slot

from .entries import Routine, Value
from .interface import Interface


def manifest(
    backend: Backend,
    program: Program,
    entries: Mapping[str, Routine],
    interface: Interface | None,
    tables: Sequence[tuple[str, Slot, bool]],
) -> str:
    """Describe each function: its custom block, and the lists of its arguments and results."""
    content = {
        "vm": backend.options.vm,
        **terms_sha256(program),
        "tables": {slot.name: {"list" if is_list else "variable": name} for name, slot, is_list in tables},
        "functions": {name: _entry(entry, interface) for name, entry in entries.items()},
    }
    return json.dumps(content, indent=2)


def _entry(entry: Routine, interface: Interface | None) -> dict[str, object]:
    shared = dict[str, str]()
    block = "~read token" if entry.function.kind is Kind.TRAINED else entry.function.name
    if interface is not None:
        [used] = [each for each in interface.functions if each.entry is entry]
        block = used.block
        shared = {r.value.name: r.shared for r in used.readings}
        shared |= {value.name: n for n, value in used.outputs} | {"loss": "loss"}
    return {
        "block": block,
        "takes": [_value(v, shared) for v in entry.takes],
        "gives": [_value(v, shared) for v in entry.gives],
    }


def _value(value: Value, shared: Mapping[str, str]) -> dict[str, object]:
    place = shared.get(value.name, value.place)
    is_variable = value.is_number and (value.name not in shared or value.role is Role.LOSS)
    return {
        "name": value.name,
        "variable" if is_variable else "list": place,
        "dtype": value.type.dtype.value,
        "shape": list(value.type.shape),
    }
