"""Files of weights: GGUF where the name ends in `.gguf`, else safetensors."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

from catgrad.dims import numbers
from catgrad.formats import gguf, safetensors
from catgrad.paths import require_file
from catgrad.programs.program import Program
from catgrad.types import Array

MOST_TIMES, MOST_BESIDE = 4, 2**26
"""The maximum size of a file: a multiple of the size of the model's arrays, plus bytes for metadata."""


def write(path: str | Path, arrays: Mapping[str, Array], metadata: Mapping[str, str] | None = None) -> None:
    """Write named arrays; an old file is replaced only when the new one is complete.

    Raises: ArtifactError as `write` of the format
    """
    (gguf if is_gguf(path) else safetensors).write(path, arrays, metadata)


def read(path: str | Path, types: Mapping[str, gguf.Type]) -> dict[str, Array]:
    """Read the named arrays of a file, those of GGUF in the types that it stores in other ones.

    Raises: ArtifactError as `read` of the format
    """
    return gguf.read(path, types) if is_gguf(path) else safetensors.read(path)


def read_metadata(path: str | Path) -> dict[str, Any]:
    """Read the metadata of a file by key. Raises: ArtifactError as `read_metadata` of the format"""
    return gguf.read_metadata(path) if is_gguf(path) else {**safetensors.read_metadata(path)}


def is_gguf(path: str | Path) -> bool:
    """Return whether a file is GGUF, by its name."""
    return Path(path).suffix.lower() == ".gguf"


def read_weights(path: str, program: Program) -> dict[str, Array]:
    """Read the arrays of a file that an option names, if its size is plausible for this program.

    Raises: ArtifactError unless it is a file of weights of a plausible size
    """
    require_file("the file of weights", path, MOST_TIMES * _table_bytes(program) + MOST_BESIDE)
    slots = [slot for table in program.tables.values() for slot in table]
    return read(path, {slot.name: (tuple(numbers(slot.type.shape)), slot.type.dtype.numpy) for slot in slots})


def _table_bytes(program: Program) -> int:
    types = (slot.type for table in program.tables.values() for slot in table)
    return sum(prod(numbers(type.shape)) * type.dtype.itemsize for type in types)
