"""A text as numbers, one for each character, and how well the character before foretells the next."""

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
    """Genesis in the King James Version, one verse a line."""
    return DATA.read_text(encoding="ascii")


def alphabet(text: str) -> str:
    """The characters that occur, each once, in the order of their codes."""
    return "".join(sorted(set(text)))


def encode(text: str, characters: str) -> np.ndarray:
    """Each character's place among `characters`, as int64. Raises: OptionError if one is not there."""
    places = {character: place for place, character in enumerate(characters)}
    if missing := set(text) - places.keys():
        raise OptionError(
            "a text must be of the characters of the alphabet",
            f"it has {''.join(sorted(missing))!r}",
            "leave these out, or take the alphabet of this text",
        )
    return np.array([places[character] for character in text], np.int64)


def decode(numbers: Iterable[int], characters: str) -> str:
    """The text that these places among `characters` spell."""
    return "".join(characters[number] for number in numbers)


def bigram_entropy(text: str) -> float:
    """The entropy of a character given the one before: −Σ p(a, b) ln p(b | a), in nats.

    No model that sees one character back does better on this text than this cross entropy.
    """
    pairs, firsts = Counter(pairwise(text)), Counter(text[:-1])
    logs = (count * log(count / firsts[first]) for (first, _), count in pairs.items())
    return -sum(logs) / max(len(text) - 1, 1)
