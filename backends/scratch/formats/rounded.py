"""Quantisation: weights rounded to few bits, as texts, three of them in one integer in base 64.

Each of three numbers with b bits is a digit in base 2ᵇ of that integer, which has b / 2 letters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from decimal import ROUND_UP, Context, Decimal

import numpy as np

from catgrad.errors import ArtifactError
from catgrad.types import Array

from .packed import MAX_EXACT_INTEGER, NAME, Packed, Text, check_letters, codes, packed, written

AT_ONCE = 3
"""The count of numbers in one integer."""

GROUP = 36
"""The count of weights that share a scale, for fewer than 8 bits."""

BITS = {"int8": 8, "int6": 6, "int4": 4}
"""The bits of a weight, by the option `storage`."""


@dataclass(frozen=True)
class Halves(Text):
    """A list of numbers in float16."""

    count: int
    text: str
    form = "float16"
    letters = 8

    @property
    def size(self) -> int:
        """Count its numbers."""
        return self.count

    def numbers(self) -> Array:
        """Decode the numbers as Scratch does: ±(1024 + m) · 2ᵉ, or ±m · 2⁻²⁴ for the least."""
        return _digits(self.text, 16)[: self.count].astype(np.uint16).view(np.float16).astype(np.float64)

    def check(self) -> None:
        """Raise ValueError for invalid fields."""
        _check_count(self, 16)


@dataclass(frozen=True)
class Steps(Text):
    """A list of integers with few bits, times scales that groups share.

    The fields from `scale_letters` on are those of the scales as decimals.
    """

    letters: int
    span: int
    group: int
    count: int
    text: str
    scale_letters: int
    scale_span: int
    scale_least: int
    scale_first: int
    scale_factor: int
    scale_text: str
    form = "steps"

    @property
    def bits(self) -> int:
        """The bits of an integer."""
        return 2 * self.letters

    @property
    def scales(self) -> Packed:
        """The scales."""
        numbers = self.scale_letters, self.scale_span, self.scale_least, self.scale_first, self.scale_factor
        return Packed(self.name, *numbers, self.scale_text)

    @property
    def size(self) -> int:
        """Count its numbers."""
        return self.count

    def numbers(self) -> Array:
        """Decode the numbers as Scratch does."""
        wholes = _digits(self.text, self.bits)[: self.count] - self.span // 2
        scales: Array = self.scales.numbers()[np.arange(self.count) // self.group]
        return wholes * scales

    def check(self) -> None:
        """Raise ValueError for invalid fields."""
        if (
            self.bits not in BITS.values()
            or self.span != 2**self.bits
            or not 0 < self.group <= MAX_EXACT_INTEGER
        ):
            raise ValueError(
                f"the numbers of {self.name} must have {', '.join(map(str, BITS.values()))} bits"
            )
        _check_count(self, self.bits)
        self.scales.check()
        if self.scales.size != -(-self.count // self.group):
            raise ValueError(f"{NAME} must have a scale for each {self.group} numbers of {self.name}")


def halves(name: str, array: Array) -> Halves:
    """Round a list to float16. Raises: ArtifactError for a number beyond its range."""
    with np.errstate(over="ignore"):
        rounded = array.astype(np.float16).ravel()
    if not np.isfinite(rounded).all():
        raise ArtifactError(
            "weights in float16 must be smaller than 65520 in size",
            f"{name} has {array.ravel()[int(np.argmin(np.isfinite(rounded)))]}",
            'store them with storage="packed"',
        )
    return Halves(name, rounded.size, _text(rounded.view(np.uint16), 16))


def steps(name: str, array: Array, bits: int) -> Steps:
    """Quantise a list to integers with this number of bits times scales, rounded to nearest.

    With 8 bits, all numbers share a scale; with fewer, groups do. Each scale minimises the sum of squared
    errors among candidates that use the full range.
    """
    flat = array.astype(np.float64).ravel()
    group = AT_ONCE * max(1, -(-flat.size // AT_ONCE)) if bits == 8 else GROUP
    groups = np.append(flat, np.zeros(-flat.size % group)).reshape(-1, group)
    scales = [_short(scale) for scale in _best_scales(groups, bits)]
    wholes = _rounded(groups, np.array(scales)[:, None], bits).astype(np.int64).ravel()[: flat.size]
    kept = packed(name, scales)
    return Steps(
        name, bits // 2, 2**bits, group, flat.size, _text(wholes + 2 ** (bits - 1), bits),
        kept.letters, kept.span, kept.least, kept.first, kept.factor, kept.text,
    )  # fmt: skip


def _best_scales(groups: Array, bits: int) -> Array:
    """Return for each group the scale with the least squared error, among those that use its full range."""
    greatest = groups[np.arange(len(groups)), np.abs(groups).argmax(axis=1)]
    ends = 2 ** (bits - 1) + np.linspace(-1, 1, 9)
    candidates = np.array([greatest / end for end in (*-ends, *ends)])
    candidates[candidates == 0] = 1.0
    rounded = (_rounded(groups, scales[:, None], bits) * scales[:, None] for scales in candidates)
    errors = np.array([np.square(groups - each).sum(axis=1) for each in rounded])
    best: Array = np.take_along_axis(candidates, errors.argmin(axis=0)[None], axis=0)[0]
    return best


def _rounded(numbers: Array, scale: Array, bits: int) -> Array:
    limit = 2 ** (bits - 1)
    rounded: Array = np.clip(np.rint(numbers / scale), -limit, limit - 1)
    return rounded


def _short(scale: float) -> float:
    """Round a scale up to 3 digits, which take few letters."""
    return float(Context(3, ROUND_UP).create_decimal(Decimal(scale)))


def _text(numbers: Array, bits: int) -> str:
    padded = np.append(numbers.astype(np.int64), np.zeros(-numbers.size % AT_ONCE, np.int64))
    places = 2 ** (bits * np.arange(AT_ONCE)[::-1])
    return written(padded.reshape(-1, AT_ONCE) @ places, bits // 2)


def _digits(text: str, bits: int) -> Array:
    digits: Array = codes(text, bits // 2)[:, None] // 2 ** (bits * np.arange(AT_ONCE)[::-1]) % 2**bits
    return digits.ravel()


def _check_count(text: Halves | Steps, bits: int) -> None:
    check_letters(text.name, text.text, bits // 2)
    if len(text.text) // (bits // 2) != -(-text.count // AT_ONCE):
        raise ValueError(f"the text for {text.name} must have {text.count} numbers")


FORMS: dict[str, type[Text]] = {form.form: form for form in (Packed, Halves, Steps)}
"""The forms of texts."""


def unpacked(items: Sequence[object]) -> dict[str, list[float]]:
    """Parse the list of texts to lists by name. Raises: ValueError if an item is invalid."""
    found, start = {}, 0
    while start < len(items):
        form = FORMS.get(str(items[start + 1])) if start + 1 < len(items) else None
        if form is None:
            raise ValueError(f"the list {NAME} must have the form of each text after its name")
        end = start + 1 + len(fields(form))
        text = form.read([items[start], *items[start + 2 : end]])
        found[text.name] = text.numbers().tolist()
        start = end
    return found
