"""Initial contents of a sprite's lists: weights from the options, or the model's initial values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from catgrad.backend import Backend
from catgrad.errors import DtypeError, ShapeError
from catgrad.formats.weights import read_weights
from catgrad.programs.ports import INITIAL, Role
from catgrad.programs.program import Program, evaluate
from catgrad.terms.state import Slot
from catgrad.types import Array


def first_values(backend: Backend, program: Program) -> dict[str, Array]:
    """Compute the initial value of each array of the tables that functions take.

    Raises: ArtifactError if the option `weights` names no file of weights; ShapeError if an array of it is
    missing, or has another shape; DtypeError if its elements are no numbers
    """
    option = backend.options.weights
    weights: Mapping[str, Any] = (
        read_weights(option, program) if isinstance(option, str) and option else option or {}
    )
    stored = program.stored
    initial: dict[str, Array] = {}
    for table, slots in program.tables.items():
        values = evaluate(program.kinds[INITIAL[table]], np.int64(0))
        for slot, value in zip(slots, values, strict=True):
            is_stored = bool(weights) and (table is Role.PARAMETER or slot.name in weights)
            initial[slot.name] = (
                _checked(slot, weights, option) if is_stored else stored.get(slot.name, value)
            )
    return initial


def _checked(slot: Slot, weights: Mapping[str, Array], option: object) -> Array:
    where = option if isinstance(option, str) else "weights"
    array = weights.get(slot.name)
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
