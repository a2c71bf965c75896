"""Lossless compression: lists of numbers as texts in base 64, smaller in Scratch projects.

A number is m · factor / 10ᵏ for whole m and k. In the text of its list it is the integer

    (k - first) · span + m - least

in base 64, with a fixed number of digits. Scratch ignores case and JSON escapes some characters, so these are
not digits. Other forms are in `rounded`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from decimal import Decimal
from typing import Any, ClassVar, Self

import numpy as np

from catgrad.errors import ArtifactError
from catgrad.types import Array

LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz!#$%&'()*+,-./:;<=>?@[]^_{|}"
"""The digits of base 64, in order."""

NAME = "~packed"
"""The list of the texts, each after its parameters."""

MAX_EXACT_INTEGER, MAX_DECIMALS = 2**52, 300
"""Limits of the integer and of the exponent, within which Scratch computes exactly."""


@dataclass(frozen=True)
class Text(ABC):
    """A list as a text. Name, form and fields are items of the list of all texts."""

    name: str
    form: ClassVar[str]

    @property
    def items(self) -> tuple[object, ...]:
        """Name, form and fields as items."""
        name, *values = astuple(self)
        return name, self.form, *values

    @property
    @abstractmethod
    def size(self) -> int:
        """Count its numbers."""

    @abstractmethod
    def numbers(self) -> Array:
        """Decode the numbers as Scratch does."""

    @abstractmethod
    def check(self) -> None:
        """Raise ValueError for invalid fields."""

    @classmethod
    def read(cls, items: Sequence[Any]) -> Self:
        """Parse name and fields. Raises: ValueError if they are invalid."""
        types = [int if field.type == "int" else str for field in fields(cls)]
        if [type(item) for item in items] != types:
            raise ValueError(
                f"a text of {cls.form} in the list {NAME} must have {len(types)} items, numbers and texts"
            )
        found = cls(*items)
        found.check()
        return found


@dataclass(frozen=True)
class Packed(Text):
    """A list as a text, with `letters` digits for each number, without rounding."""

    letters: int
    span: int
    least: int
    first: int
    factor: int
    text: str
    form = "decimals"

    @property
    def size(self) -> int:
        """Count its numbers."""
        return len(self.text) // self.letters

    @property
    def last(self) -> int:
        """The largest exponent k."""
        return int(codes(self.text, self.letters).max(initial=0)) // self.span + self.first

    def numbers(self) -> Array:
        """Decode the numbers as Scratch does."""
        found = codes(self.text, self.letters)
        powers = np.array([float(10**k) for k in range(self.last + 1)])
        wholes = (found % self.span + self.least).astype(np.float64)
        quotients: Array = wholes * self.factor / powers[found // self.span + self.first]
        return quotients

    def check(self) -> None:
        """Raise ValueError for invalid fields."""
        sizes = self.span, self.factor, 1 + abs(self.least), 1 + self.first
        check_letters(self.name, self.text, self.letters)
        if not all(0 < size <= MAX_EXACT_INTEGER for size in sizes) or self.last > MAX_DECIMALS:
            raise ValueError(
                f"the numbers of {self.name} must have at most {MAX_DECIMALS} digits after the point"
            )


def packed(name: str, numbers: Sequence[float]) -> Packed:
    """Pack a list without loss. Raises: ArtifactError if its numbers have too many digits."""
    pairs = _as_long([_decimal(number) for number in numbers])
    least = min((m for m, _ in pairs), default=0)
    span = max((m for m, _ in pairs), default=0) - least + 1
    first, last = (end((k for _, k in pairs), default=0) for end in (min, max))
    if (last - first + 1) * span > MAX_EXACT_INTEGER or last > MAX_DECIMALS:
        raise ArtifactError(
            "the numbers of a packed list must have 14 digits at most, and no more than 300 after the point",
            f"those of {name} have more",
            "round them with sig_figs=9",
        )
    found = [(k - first) * span + m - least for m, k in pairs]
    letters = 1
    while 64**letters <= max(found, default=0):
        letters += 1
    return Packed(name, letters, span, least, first, 1, written(found, letters))


def written(numbers: Sequence[int] | Array, letters: int) -> str:
    """Write integers in base 64, with this number of digits each."""
    digits = np.asarray(numbers, np.int64)[:, None] // 64 ** np.arange(letters)[::-1] % 64
    return "".join(LETTERS[digit] for digit in digits.ravel())


def codes(text: str, letters: int) -> Array:
    """Read integers in base 64, with this number of digits each."""
    digits = np.array([LETTERS.index(letter) for letter in text], np.int64)
    return digits.reshape(-1, letters) @ 64 ** np.arange(letters)[::-1]


def check_letters(name: str, text: str, letters: int) -> None:
    """Raise ValueError unless a text has integers with this number of digits, at most 9."""
    if not 0 < letters < 10:
        raise ValueError(f"{NAME} must have up to 9 letters a number, but has another count for {name}")
    if len(text) % letters or not set(text) <= set(LETTERS):
        raise ValueError(f"the text for {name} must have {letters} letters of {LETTERS} a number")


def _decimal(number: float) -> tuple[int, int]:
    """Return m and k with m / 10ᵏ equal to the number, by its shortest digits."""
    decimal = Decimal(repr(number)).normalize()
    k = max(0, -int(decimal.as_tuple().exponent))
    return int(decimal.scaleb(k)), k


def _as_long(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Extend numbers to equally many digits, to minimise the range of exponents; 0 has any."""
    longest = max((len(str(abs(m))) for m, _ in pairs), default=0)
    longer = [(longest - len(str(abs(m))), m, k) for m, k in pairs]
    first = min((k + more for more, m, k in longer if m), default=0)
    return [(m * 10**more, k + more) if m else (0, first) for more, m, k in longer]
