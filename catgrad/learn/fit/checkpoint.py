"""Checkpoints: a learner's parameters, buffers and optimiser state in a file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from catgrad.errors import OptionError, ShapeError, unknown
from catgrad.formats import weights
from catgrad.learn.learner import Learner
from catgrad.programs.ports import TABLES
from catgrad.terms.state import is_learning_rate
from catgrad.types import Array, as_numpy, widened

Tables = dict[str, dict[str, Any]]


def tables(learner: Learner) -> Tables:
    """Return the tables of a learner. One that is not emitted may lack a table.

    Raises: OptionError for anything else, such as a path
    """
    if not hasattr(learner, "parameters"):
        raise OptionError(
            "a checkpoint must be of a learner, which comes before the path",
            f"it is of {learner!r}",
            'write for example checkpoint.save(learner, "run.safetensors")',
        )
    return {str(table): getattr(learner, table) for table in TABLES if hasattr(learner, table)}


def restore(learner: Learner, values: Tables) -> None:
    """Restore the tables of a learner."""
    for table, arrays in values.items():
        setattr(learner, table, arrays)


def save(
    learner: Learner,
    path: str | Path,
    metadata: Mapping[str, str] | None = None,
    aliases: Mapping[str, str] | None = None,
) -> None:
    """Write the tables of a learner by name; training resumes from it bit for bit.

    The file is GGUF if its name ends in `.gguf`, and safetensors otherwise.

    `aliases` maps further names to names of arrays, as for tied weights: the file has each array once, and
    the aliases in its metadata.

    Raises: ArtifactError if the file cannot be written; UnknownName if an alias names no array.
    """
    arrays, known = _all(tables(learner)), dict(metadata or {})
    _require_names(aliases or {}, arrays)
    if aliases:
        known["aliases"] = json.dumps(dict(aliases))
    weights.write(path, {name: as_numpy(array) for name, array in arrays.items()}, known)


def load(learner: Learner, path: str | Path, aliases: Mapping[str, str] | None = None) -> None:
    """Read parameters, and buffers and state if the file has them, into a learner of any target.

    A file without buffers or state, such as that of another program, does not change those of the learner.
    Nor does a file without learning rates change these: they are constants of the program on some targets.
    The file is GGUF if its name ends in `.gguf`; its quantised and 16-bit arrays fit those of float32.
    `aliases` maps names in the file to names in the model; the file may have either or both.

    Raises: ArtifactError unless it is a whole file of its format; UnknownName if an alias is for no array of
    the model; ShapeError if an array is missing, not in
    the model, or has another shape or dtype, or if an alias differs from its array. Then the learner is
    unchanged.
    """
    types = {name: _type(array) for name, array in _all(tables(learner)).items()}
    _require_names(aliases or {}, types)
    types |= {alias: types[name] for alias, name in (aliases or {}).items()}
    found = _without_aliases(weights.read(path, types), aliases or {}, path)
    there = {
        table: {n: a for n, a in arrays.items() if n in found or not is_learning_rate(n)}
        for table, arrays in tables(learner).items()
        if table == "parameters" or any(name in found for name in arrays)
    }
    expected = {name: types[name] for name in _all(there)}
    actual = {name: _type(array) for name, array in found.items()}
    if expected != actual:
        differing = sorted({name for name, _ in expected.items() ^ actual.items()})
        raise ShapeError(
            f"{path} must hold the arrays of this model",
            f"it differs in {', '.join(differing)}",
            "load it into the model it was saved from",
        )
    read = {table: {name: widened(found[name]) for name in arrays} for table, arrays in there.items()}
    restore(learner, {table: getattr(learner, table) | arrays for table, arrays in read.items()})


def _require_names(aliases: Mapping[str, str], known: Iterable[str]) -> None:
    for name in aliases.values():
        if name not in known:
            raise unknown("weight", name, known, "learner.parameters")


def _without_aliases(
    found: dict[str, Array], aliases: Mapping[str, str], path: str | Path
) -> dict[str, Array]:
    """Rename the arrays to the names of the model."""
    for alias, name in aliases.items():
        if alias in found:
            array = found.pop(alias)
            if not np.array_equal(found.setdefault(name, array), array):
                raise ShapeError(
                    "an alias must equal the array it stands for",
                    f"{alias} and {name} of {path} differ",
                    "give the model two parameters",
                )
    return found


def _all(values: Tables) -> dict[str, Any]:
    return {name: array for arrays in values.values() for name, array in arrays.items()}


def _type(array: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    as_array = as_numpy(array)
    return as_array.shape, as_array.dtype
