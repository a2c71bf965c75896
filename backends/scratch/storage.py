"""How a sprite's file keeps the arrays of its tables: as numbers, or as texts that it unpacks once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from catgrad.backend import Backend
from catgrad.formats.packed import LETTERS, NAME, Packed, packed, rounded
from catgrad.program import Program
from catgrad.types import Array

from .assemble.limits import check_list
from .assemble.numbers import items
from .interface import tables

LETTERS_LIST, POWERS_LIST = "~letters", "~powers of 10"


@dataclass(frozen=True)
class Storage:
    """The lists that are given beside the text, and of which of them there are only texts.

    `errors` says for each list that is rounded how far a number is off at most.
    """

    given: Mapping[str, Any]
    packed: tuple[Packed, ...] = ()
    errors: Mapping[str, float] = field(default_factory=dict)


def storage(backend: Backend, program: Program, first: Mapping[str, Array]) -> Storage:
    """The tables of a program, of which these are the first values, as the option `storage` says.

    Raises: ArtifactError if Scratch has no room for a list, or its numbers are not finite or have too many
    digits
    """
    options = backend.options
    arrays = {place: first[slot.name] for place, slot, is_list in tables(backend, program) if is_list}
    buffers = {slot.name for slot in program.tables.get("buffers", ())}
    masks = {
        place: _with_texts(items(place, np.where(np.isinf(array), 0, array), options.sig_figs), array)
        for place, array in arrays.items()
        if place in buffers and np.isinf(array).any()
    }
    if options.storage == "numbers":
        return Storage({place: array.ravel() for place, array in arrays.items()} | masks)
    weights = {slot.name for slot in program.tables["parameters"]} if options.storage == "int8" else set()
    lists = {
        place: items(place, array.ravel(), options.sig_figs)
        for place, array in arrays.items()
        if place not in masks
    }
    for place, numbers in lists.items():
        check_list(place, len(numbers))
    texts = [
        rounded(place, arrays[place]) if place in weights else packed(place, numbers)
        for place, numbers in lists.items()
    ]
    powers = [10**k for k in range(1 + max((each.last for each in texts), default=0))]
    rows = [item for each in texts for item in each.items]
    given = {NAME: rows, LETTERS_LIST: list(LETTERS), POWERS_LIST: powers} if texts else {}
    return Storage(
        given | masks, tuple(texts), {t.name: _error(t, arrays[t.name]) for t in texts if t.name in weights}
    )


def _with_texts(numbers: Sequence[Any], array: Array) -> list[Any]:
    """The items of a mask, with infinities as texts, for Scratch saves such numbers as 0."""
    texts = {np.inf: "Infinity", -np.inf: "-Infinity"}
    return [texts.get(x, number) for x, number in zip(array.ravel().tolist(), numbers, strict=True)]


def _error(text: Packed, array: Array) -> float:
    return float(np.abs(text.numbers() - array.ravel()).max(initial=0))
