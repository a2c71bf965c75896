"""The file of weights that an option of a target names."""

from __future__ import annotations

from math import prod

from catgrad.dims import numbers
from catgrad.formats import safetensors
from catgrad.paths import require_file
from catgrad.programs.program import Program
from catgrad.types import Array

MOST_TIMES, MOST_BESIDE = 4, 2**26
"""Limits of a file, over the bytes of the model's arrays: a multiple, and bytes beside for texts and more."""


def read_weights(path: str, program: Program) -> dict[str, Array]:
    """Read the arrays of a file by name, unless its size shows that it cannot be one for this program.

    Raises: ArtifactError if it is no regular file, empty, far too large, or no safetensors
    """
    require_file("the file of weights", path, MOST_TIMES * _table_bytes(program) + MOST_BESIDE)
    return safetensors.read(path)


def _table_bytes(program: Program) -> int:
    types = (slot.type for table in program.tables.values() for slot in table)
    return sum(prod(numbers(type.shape)) * type.dtype.itemsize for type in types)
