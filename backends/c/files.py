"""Buffer sizes of the emitted reader and writer of safetensors files."""

from __future__ import annotations

from collections.abc import Mapping

from catgrad.programs.program import Program
from catgrad.types import NdArrayType

from .layouts import Layout

FEWEST_AXES = 8
"""Axes that the reader has room for at least, whatever the model has."""


def longest_name(placed: Mapping[str, Layout]) -> int:
    """Return the length of the longest name of an array."""
    return max(len(place.slot.name) for layout in placed.values() for place in layout)


def most_axes(program: Program) -> int:
    """Return the greatest rank of an array in a file."""
    slots = (slot.type for table in program.tables.values() for slot in table)
    arguments = (type for f in program.functions for type in f.argument_types)
    ranks: list[NdArrayType] = [*slots, *arguments]
    return max(FEWEST_AXES, *(type.rank for type in ranks))
