"""Trained weights as digits in the source, for machines without files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from catgrad.backend import Backend
from catgrad.errors import OptionError, ShapeError
from catgrad.formats.weights import read_weights
from catgrad.naming import Namer
from catgrad.programs.program import Program
from catgrad.types import Array

from .layouts import Layout, Place

MAX_SOURCE_BYTES = 2**21
"""Limit of arrays in the source, in bytes, beyond which compilers and editors get slow."""

INFERENCE_TABLES = ("buffers", "parameters")
"""The tables that inference with a trained model reads."""


@dataclass(frozen=True)
class Weight:
    """An array of a table, and its elements in the fewest digits that are read back as the same."""

    table: str
    place: Place
    identifier: str
    digits: tuple[str, ...]


def weights(program: Program, placed: Mapping[str, Layout], backend: Backend) -> list[Weight]:
    """Read the arrays of the file that the option `weights` names; none without it.

    Raises: ArtifactError if the file is no whole file of weights; ShapeError if an array is missing or has
    another shape or dtype; OptionError if they are too large for a source
    """
    path = backend.options.weights
    if not path:
        return []
    arrays = read_weights(path, program)
    selected = {
        table: layout
        for table, layout in placed.items()
        if table == "parameters"
        or (table in INFERENCE_TABLES and any(place.slot.name in arrays for place in layout))
    }
    total = sum(place.bytes for layout in selected.values() for place in layout)
    if total > MAX_SOURCE_BYTES:
        raise OptionError(
            f"weights in the source must have {MAX_SOURCE_BYTES} bytes at most",
            f"those of the model have {total}",
            "read them from the file at run time",
        )
    namer = Namer()
    return [
        Weight(table, place, namer.fresh(place.slot.name), _digits(_of(place, arrays, path)))
        for table, layout in selected.items()
        for place in layout
    ]


def _of(place: Place, arrays: Mapping[str, Array], path: str) -> Array:
    name, dtype = place.slot.name, place.slot.type.dtype.numpy
    array = arrays.get(name)
    if array is None or array.shape != place.shape or array.dtype != dtype:
        there = "is missing" if array is None else f"is {array.dtype}{list(array.shape)}"
        raise ShapeError(
            f"{path} must hold {name} as {dtype}{list(place.shape)}",
            f"it {there}",
            "emit the program of the model it was saved from",
        )
    return array


def _digits(array: Array) -> tuple[str, ...]:
    flat: Any = array.reshape(-1)
    bits = flat.view(np.uint16) if array.dtype.name in ("float16", "bfloat16") else flat
    return tuple(str(element) for element in bits)
