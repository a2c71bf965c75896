"""Texts as numbers, one for each character, and the entropy of bigrams."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from math import log
from pathlib import Path

import numpy as np

from catgrad.errors import OptionError

DATA = Path(__file__).parent / "data" / "genesis.txt"


def load() -> str:
    """Load Genesis in the King James Version, one verse a line."""
    return DATA.read_text(encoding="ascii")


def alphabet(text: str) -> str:
    """Return the distinct characters, sorted by code."""
    return "".join(sorted(set(text)))


def encode(text: str, characters: str) -> np.ndarray:
    """Encode characters by index in `characters`, as int64. Raises: OptionError if one is missing."""
    places = {character: place for place, character in enumerate(characters)}
    if missing := set(text) - places.keys():
        raise OptionError(
            "the characters of a text must be in the alphabet",
            f"it has {''.join(sorted(missing))!r}",
            "leave these out, or use the alphabet of this text",
        )
    return np.array([places[character] for character in text], np.int64)


def decode(numbers: Iterable[int], characters: str) -> str:
    """Decode indices in `characters` to text."""
    return "".join(characters[number] for number in numbers)


def bigram_entropy(text: str) -> float:
    """Return the entropy of a character given the one before: −Σ p(a, b) ln p(b | a), in nats.

    It is the least cross entropy of a model that sees only the previous character.
    """
    pairs, firsts = Counter(pairwise(text)), Counter(text[:-1])
    logs = (count * log(count / firsts[first]) for (first, _), count in pairs.items())
    return -sum(logs) / max(len(text) - 1, 1)
