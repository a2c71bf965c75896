"""Numbers and texts as the JSON of a file holds them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from catgrad.errors import ArtifactError
from catgrad.types import as_numpy

from ..language.tree import Literal

_WHOLE = 2**53


def written(value: Literal) -> Literal:
    """The value, a whole number without its fraction."""
    if isinstance(value, float) and value.is_integer() and abs(value) < _WHOLE:
        return int(value)
    return value


def items(name: str, values: Sequence[Any], sig_figs: int | None) -> list[Literal]:
    """The items of a list, an array row by row: numbers in the fewest digits that their dtype reads back.

    Raises: ArtifactError if a number is not finite.
    """
    texts_and_numbers = isinstance(values, list | tuple)
    taken = values if texts_and_numbers else _digits(as_numpy(values).ravel())
    return [_item(name, place, value, sig_figs) for place, value in enumerate(taken, start=1)]


def _digits(array: Any) -> Iterable[Any]:
    """The elements of an array as Python's numbers, those of less than 64 bits by their shortest digits."""
    if array.dtype.kind in "biu" or array.dtype == np.float64:
        return array.tolist()  # type: ignore[no-any-return]
    return [float(str(element)) for element in array]


def _item(name: str, place: int, value: Any, sig_figs: int | None) -> Literal:
    if isinstance(value, str):
        return value
    if not math.isfinite(value):
        raise ArtifactError(
            "a list must hold finite numbers, for Scratch saves others as 0",
            f"item {place} of {name} is {value}",
            "train the model anew with a smaller learning rate",
        )
    if isinstance(value, int | np.integer):
        return int(value)
    return written(float(f"{value:.{sig_figs}g}" if sig_figs else value))
