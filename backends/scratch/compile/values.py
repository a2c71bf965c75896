"""Initial contents of a sprite's lists: weights from the options, or the model's first values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from catgrad.backend import Backend
from catgrad.errors import DtypeError, ShapeError
from catgrad.formats.weights import read_weights
from catgrad.programs.ports import INITIAL, Role
from catgrad.programs.program import Program, interpret
from catgrad.terms.state import Slot
from catgrad.types import Array


def first_values(backend: Backend, program: Program) -> dict[str, Array]:
    """Compute the initial value of each array of the tables that functions take.

    Raises: ArtifactError if the option `weights` names no safetensors file; ShapeError if an array of it is
    missing, or has another shape; DtypeError if its elements are no numbers
    """
    weights = backend.options.weights
    given: Mapping[str, Any] = (
        read_weights(weights, program) if isinstance(weights, str) and weights else weights or {}
    )
    found: dict[str, Array] = {}
    for table, slots in program.tables.items():
        values = interpret(program.kinds[INITIAL[table]], np.int64(0))
        for slot, value in zip(slots, values, strict=True):
            wanted = bool(given) and (table is Role.PARAMETER or slot.name in given)
            found[slot.name] = _given(slot, given, weights) if wanted else value
    return found


def _given(slot: Slot, given: Mapping[str, Any], weights: object) -> Array:
    where = weights if isinstance(weights, str) else "weights"
    array = given.get(slot.name)
    if array is None or np.shape(array) != slot.type.shape:
        there = "is missing" if array is None else f"has shape {list(np.shape(array))}"
        raise ShapeError(
            f"{where} must hold {slot.name} with shape {list(slot.type.shape)}",
            f"it {there}",
            "pass the weights of this model",
        )
    numbers = np.asarray(array)
    if not np.can_cast(numbers.dtype, np.float64, "same_kind"):
        raise DtypeError(
            f"{where} must hold {slot.name} as numbers",
            f"it is {numbers.dtype}",
            "pass the weights of this model",
        )
    return numbers
