"""A learner's parameters, buffers and optimiser state, in a file and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from catgrad.errors import ShapeError
from catgrad.formats import safetensors

Tables = dict[str, dict[str, Any]]

TABLES = ("state", "buffers", "parameters")
"""What a learner holds arrays in, by name."""


def tables(learner: Any) -> Tables:
    """All that a learner holds. One that is not emitted may lack a table."""
    return {table: getattr(learner, table) for table in TABLES if hasattr(learner, table)}


def put_back(learner: Any, held: Tables) -> None:
    """Let the learner hold these tables again."""
    for table, arrays in held.items():
        setattr(learner, table, arrays)


def save(learner: Any, path: str | Path, metadata: dict[str, str] | None = None) -> None:
    """Write all a learner holds by name, as safetensors; training goes on from it bit for bit.

    Raises: ArtifactError if the file cannot be written.
    """
    arrays = _all(tables(learner))
    safetensors.write(path, {name: np.asarray(array) for name, array in arrays.items()}, metadata)


def load(learner: Any, path: str | Path) -> None:
    """Read parameters, and buffers and state if the file has them, into a learner of any target.

    A file without buffers or state, such as that of another program, leaves those of the learner as they are.
    Raises: ArtifactError if the file is no safetensors; ShapeError if an array is missing, is left
    over or has another shape or dtype. Then the learner is as before.
    """
    found = safetensors.read(path)
    there = {
        table: arrays
        for table, arrays in tables(learner).items()
        if table == "parameters" or any(name in found for name in arrays)
    }
    expected = {name: _type(array) for name, array in _all(there).items()}
    actual = {name: _type(array) for name, array in found.items()}
    if expected != actual:
        differing = sorted({name for name, _ in expected.items() ^ actual.items()})
        raise ShapeError(
            f"{path} must hold the arrays of this model",
            f"it differs in {', '.join(differing)}",
            "load it into the model it was saved from",
        )
    put_back(learner, {table: {name: found[name] for name in arrays} for table, arrays in there.items()})


def _all(held: Tables) -> dict[str, Any]:
    return {name: array for arrays in held.values() for name, array in arrays.items()}


def _type(array: Any) -> tuple[tuple[int, ...], str]:
    as_array = np.asarray(array)
    return as_array.shape, as_array.dtype.name
