"""A learner's parameters and optimiser state, in a file and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from catgrad.errors import ShapeError
from catgrad.formats import safetensors


def save(learner: Any, path: str | Path) -> None:
    """Write parameters and state by name, as safetensors; training goes on from them bit for bit.

    Raises: ArtifactError if the file cannot be written.
    """
    arrays = {**learner.state, **learner.parameters}
    safetensors.write(path, {name: np.asarray(array) for name, array in arrays.items()})


def load(learner: Any, path: str | Path) -> None:
    """Read parameters, and state if the file has it, into a learner of any target.

    A file without the optimiser's state, such as that of another program, starts it anew.
    Raises: ArtifactError if the file is no safetensors; ShapeError if an array is missing, is left
    over or has another shape or dtype. Then the learner is as before.
    """
    found = safetensors.read(path)
    with_state = any(name in found for name in learner.state)
    wanted = {**learner.state, **learner.parameters} if with_state else learner.parameters
    expected = {name: _type(array) for name, array in wanted.items()}
    actual = {name: _type(array) for name, array in found.items()}
    if expected != actual:
        differing = sorted({name for name, _ in expected.items() ^ actual.items()})
        raise ShapeError(
            f"{path} must hold the arrays of this model",
            f"it differs in {', '.join(differing)}",
            "load it into the model it was saved from",
        )
    if with_state:
        learner.state = {name: found[name] for name in learner.state}
    learner.parameters = {name: found[name] for name in learner.parameters}


def _type(array: Any) -> tuple[tuple[int, ...], str]:
    as_array = np.asarray(array)
    return as_array.shape, as_array.dtype.name
