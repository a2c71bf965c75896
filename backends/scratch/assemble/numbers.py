"""Numbers and texts in the JSON of a file."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

import numpy as np

from catgrad.errors import ArtifactError
from catgrad.types import Array, as_numpy

from ..language.tree import Literal

_WHOLE = 2**53
_NARROW = "fV"  # kinds of dtypes of ml_dtypes in NumPy


def written(value: Literal) -> Literal:
    """Convert a float that is an integer to an int."""
    if isinstance(value, float) and value.is_integer() and abs(value) < _WHOLE:
        return int(value)
    return value


def items(name: str, values: Sequence[object] | Array, sig_figs: int | None) -> list[Literal]:
    """Return the items of a list, arrays in row-major order, by the shortest digits of their dtype.

    Raises: ArtifactError if an item is neither a text nor a finite number.
    """
    taken = values if isinstance(values, list | tuple) else _digits(as_numpy(values).ravel())
    return [_item(name, place, value, sig_figs) for place, value in enumerate(taken, start=1)]


def _digits(array: Array) -> Iterable[object]:
    """Convert the elements of an array to Python numbers, by the shortest digits of narrow dtypes."""
    if array.dtype.kind in _NARROW and array.dtype != np.float64:
        return [float(str(element)) for element in array]
    return array.tolist()  # type: ignore[no-any-return]


def _item(name: str, place: int, value: object, sig_figs: int | None) -> Literal:
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, str):
        return value
    if not (isinstance(value, int | float) and abs(value) <= sys.float_info.max):
        raise ArtifactError(
            "a list must hold finite numbers, because Scratch saves others as 0",
            f"item {place} of {name} is {value!r}",
            "train the model again with a smaller learning rate",
        )
    if isinstance(value, int):
        return int(value)
    return written(float(f"{value:.{sig_figs}g}" if sig_figs else value))
