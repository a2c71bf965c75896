"""Storage of tables in a sprite's file: as numbers, or quantised or exact texts that it unpacks once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import numpy as np

from catgrad.programs.ports import Role
from catgrad.types import Array

from ..assemble.limits import check_list
from ..assemble.numbers import items
from ..formats.packed import LETTERS, NAME, Packed, Text, packed
from ..formats.rounded import BITS, Halves, Steps, halves, steps
from .entries import Sprite
from .interface import tables

LETTERS_LIST, POWERS_LIST, HALVES_LIST = "~letters", "~powers of 10", "~powers of 2"

POWERS = [2.0 ** (max(exponent, 1) - 25) for exponent in range(32)]
"""Value of one unit of the fraction of a float16, by its exponent."""


@dataclass(frozen=True)
class Storage:
    """The lists that are stored as numbers, and those that are stored as texts.

    `errors` has for each quantised list the greatest absolute error of a number.
    """

    lists: Mapping[str, Any]
    packed: tuple[Text, ...] = ()
    errors: Mapping[str, float] = field(default_factory=dict)

    @property
    def rows(self) -> list[int]:
        """Count the items of the list of texts before each."""
        return [0, *accumulate(len(text.items) for text in self.packed)]


def storage(sprite: Sprite, first: Mapping[str, Array]) -> Storage:
    """Encode the tables of a sprite, with these initial values, by the option `storage`.

    Raises: ArtifactError if Scratch has no room for a list, or its numbers are not finite, have too many
    digits or are too large for float16
    """
    options, program = sprite.backend.options, sprite.program
    arrays = {place: first[slot.name] for place, slot, is_list in tables(sprite) if is_list}
    buffers = {slot.name for slot in program.tables.get(Role.BUFFER, ())}
    masks = {
        place: _with_texts(items(place, np.where(np.isinf(array), 0, array), options.sig_figs), array)
        for place, array in arrays.items()
        if place in buffers and np.isinf(array).any()
    }
    if options.storage == "numbers":
        return Storage({place: array.ravel() for place, array in arrays.items()} | masks)
    weights = {slot.name for slot in program.tables.get(Role.PARAMETER, ())}
    lists = {
        place: items(place, array.ravel(), options.sig_figs)
        for place, array in arrays.items()
        if place not in masks
    }
    for place, numbers in lists.items():
        check_list(place, len(numbers))
    texts = [
        _text(options.storage if place in weights else "packed", place, numbers, arrays[place])
        for place, numbers in lists.items()
    ]
    return Storage(
        _decoding_lists(texts) | masks,
        tuple(texts),
        {
            text.name: float(np.abs(text.numbers() - arrays[text.name].ravel()).max(initial=0))
            for text in texts
            if not isinstance(text, Packed)
        },
    )


def _text(format: str, place: str, numbers: Sequence[Any], array: Array) -> Text:
    """Encode a list as a text; only matrices are quantised to few bits: vectors are small and sensitive."""
    if format == "float16":
        return halves(place, array)
    if format in BITS and array.ndim > 1:
        return steps(place, array, BITS[format])
    return packed(place, numbers)


def _decoding_lists(texts: Sequence[Text]) -> dict[str, Any]:
    """Return the list of all texts, and the lists by which they are decoded."""
    if not texts:
        return {}
    found: dict[str, Any] = {NAME: [item for each in texts for item in each.items], LETTERS_LIST: [*LETTERS]}
    decimals = [text.scales if isinstance(text, Steps) else text for text in texts]
    lasts = [text.last for text in decimals if isinstance(text, Packed)]
    if lasts:
        found[POWERS_LIST] = [10**k for k in range(1 + max(lasts))]
    if any(isinstance(text, Halves) for text in texts):
        found[HALVES_LIST] = POWERS
    return found


def _with_texts(numbers: Sequence[object], array: Array) -> list[Any]:
    """Return the items of a mask, with infinities as texts, because Scratch saves such numbers as 0."""
    texts = {np.inf: "Infinity", -np.inf: "-Infinity"}
    return [texts.get(x, number) for x, number in zip(array.ravel().tolist(), numbers, strict=True)]
