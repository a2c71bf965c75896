"""Lists of numbers as texts, which take less room in the file of a Scratch project.

A number is m · factor / 10ᵏ for whole m and k. In the text of its list it is the whole number

    (k - first) · span + m - least

to base 64, in as many digits as the others. Scratch takes a capital for the small letter, and JSON needs two
signs for some, so that none of these is a digit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from decimal import Decimal
from math import ceil, floor, log10
from typing import Any

import numpy as np

from catgrad.errors import ArtifactError
from catgrad.types import Array

LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz!#$%&'()*+,-./:;<=>?@[]^_{|}"
"""The digits to base 64, in their order."""

NAME = "~packed"
"""The list of the texts, each with the numbers that it is read with before it."""

LARGEST, FINEST = 2**52, 300
"""Limits of the whole number and of the exponent, within which Scratch computes rightly."""

STEPS = 127
"""The greatest number of 8 bits whose negative is one too."""


@dataclass(frozen=True)
class Packed:
    """A list as a text, of so many letters a number; its fields are items of the list of the texts."""

    name: str
    letters: int
    span: int
    least: int
    first: int
    factor: int
    text: str

    @property
    def items(self) -> tuple[str | int, ...]:
        """The fields."""
        return astuple(self)

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return len(self.text) // self.letters

    @property
    def last(self) -> int:
        """The largest exponent k."""
        return int(self._codes().max(initial=0)) // self.span + self.first

    def numbers(self) -> Array:
        """The numbers, as Scratch computes them."""
        codes = self._codes()
        powers = np.array([float(10**k) for k in range(self.last + 1)])
        wholes = (codes % self.span + self.least).astype(np.float64)
        quotients: Array = wholes * self.factor / powers[codes // self.span + self.first]
        return quotients

    def _codes(self) -> Array:
        digits = np.array([LETTERS.index(letter) for letter in self.text], np.int64)
        return digits.reshape(-1, self.letters) @ 64 ** np.arange(self.letters)[::-1]


FIELDS = len(fields(Packed))


def packed(name: str, numbers: Sequence[float]) -> Packed:
    """A list without any loss. Raises: ArtifactError if its numbers have too many digits."""
    pairs = _as_long([_decimal(number) for number in numbers])
    least = min((m for m, _ in pairs), default=0)
    span = max((m for m, _ in pairs), default=0) - least + 1
    first, last = (end((k for _, k in pairs), default=0) for end in (min, max))
    if (last - first + 1) * span > LARGEST or last > FINEST:
        raise ArtifactError(
            "the numbers of a packed list must have 14 digits at most, and no more than 300 behind the point",
            f"those of {name} have more",
            "round them with sig_figs=9",
        )
    return _written(name, [(k - first) * span + m - least for m, k in pairs], span, least, first, 1)


def rounded(name: str, array: Array) -> Packed:
    """A list of whole numbers from -127 to 127 times one step, each within half a step of what it was."""
    step = float(np.abs(array).max(initial=0)) / STEPS or 1.0
    places = min(max(0, 2 - floor(log10(step))), FINEST)
    factor = ceil(step * 10**places)
    wholes = np.rint(array.astype(np.float64).ravel() * float(10**places) / factor)
    codes = [int(m) + STEPS for m in wholes]
    return _written(name, codes, 2 * STEPS + 1, -STEPS, places, factor)


def unpacked(items: Sequence[Any]) -> dict[str, list[float]]:
    """Lists by name, of the items of the list of their texts. Raises: ValueError if these are others."""
    rows = [items[start : start + FIELDS] for start in range(0, len(items), FIELDS)]
    return {row[0]: _checked(row).numbers().tolist() for row in rows}


def _checked(row: Sequence[Any]) -> Packed:
    types = [int if field.type == "int" else str for field in fields(Packed)]
    if [type(item) for item in row] != types:
        raise ValueError(f"the list {NAME} must have {FIELDS} items for each text, numbers between two texts")
    found = Packed(*row)
    sizes = found.span, found.factor, 1 + abs(found.least), 1 + found.first
    if not (0 < found.letters < 10 and all(0 < size <= LARGEST for size in sizes)):
        raise ValueError(
            f"{NAME} must have texts of up to 9 letters a number, but has another for {found.name}"
        )
    if len(found.text) % found.letters or not set(found.text) <= set(LETTERS):
        raise ValueError(f"the text for {found.name} must have {found.letters} letters of {LETTERS} a number")
    if found.last > FINEST:
        raise ValueError(f"the numbers of {found.name} must have at most {FINEST} digits behind the point")
    return found


def _decimal(number: float) -> tuple[int, int]:
    """m and k for m / 10ᵏ, by the shortest digits that read back as the number."""
    decimal = Decimal(repr(number)).normalize()
    k = max(0, -int(decimal.as_tuple().exponent))
    return int(decimal.scaleb(k)), k


def _as_long(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same numbers, all with as many digits, so that their exponents differ least; 0 has any."""
    longest = max((len(str(abs(m))) for m, _ in pairs), default=0)
    longer = [(longest - len(str(abs(m))), m, k) for m, k in pairs]
    first = min((k + more for more, m, k in longer if m), default=0)
    return [(m * 10**more, k + more) if m else (0, first) for more, m, k in longer]


def _written(name: str, codes: Sequence[int], span: int, least: int, first: int, factor: int) -> Packed:
    letters = 1
    while 64**letters <= max(codes, default=0):
        letters += 1
    digits = np.array(codes, np.int64)[:, None] // 64 ** np.arange(letters)[::-1] % 64
    text = "".join(LETTERS[digit] for digit in digits.ravel())
    return Packed(name, letters, span, least, first, factor, text)
