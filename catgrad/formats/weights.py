"""Files of weights that options of targets name."""

from __future__ import annotations

from math import prod

from catgrad.dims import numbers
from catgrad.formats import safetensors
from catgrad.paths import require_file
from catgrad.programs.program import Program
from catgrad.types import Array

MOST_TIMES, MOST_BESIDE = 4, 2**26
"""The maximum size of a file: a multiple of the size of the model's arrays, plus bytes for metadata."""


def read_weights(path: str, program: Program) -> dict[str, Array]:
    """Read the arrays of a file by name, if its size is plausible for this program.

    Raises: ArtifactError unless it is a safetensors file of a plausible size
    """
    require_file("the file of weights", path, MOST_TIMES * _table_bytes(program) + MOST_BESIDE)
    return safetensors.read(path)


def _table_bytes(program: Program) -> int:
    types = (slot.type for table in program.tables.values() for slot in table)
    return sum(prod(numbers(type.shape)) * type.dtype.itemsize for type in types)
