"""The blocks of Scratch's palette, as templates/scratch/palette.toml lists them."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache

from ... import templates


@dataclass(frozen=True, slots=True)
class Slot:
    """The slot of an operand: an input or field of a block, and the kind of its content."""

    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class PaletteBlock:
    """A block: its opcode, the slots of its operands, and the entries chosen from its menus."""

    opcode: str
    slots: tuple[Slot, ...]
    menus: dict[str, str]


@cache
def palette() -> dict[str, dict[str, PaletteBlock]]:
    """Return blocks by form, in the tables hats, statements, ends, conditions and values."""
    tables = tomllib.loads((templates("scratch") / "palette.toml").read_text(encoding="utf-8"))
    return {table: {form: _entry(*row) for form, row in rows.items()} for table, rows in tables.items()}


@cache
def stack_blocks() -> dict[str, PaletteBlock]:
    """Return the stack blocks."""
    return palette()["statements"] | palette()["ends"]


@cache
def reporters() -> dict[str, PaletteBlock]:
    """Return the reporter blocks."""
    return palette()["values"] | palette()["conditions"]


def _entry(opcode: str, *places: str) -> PaletteBlock:
    slots = tuple(Slot(*place.split()) for place in places if "=" not in place)
    return PaletteBlock(opcode, slots, dict(place.split("=") for place in places if "=" in place))
