"""The picture of all costumes."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

from catgrad.errors import TextError

from ... import templates

FIRST = "costume1"
"""The name of the costume that every sprite has."""


@cache
def picture() -> bytes:
    """Return the picture as SVG."""
    return (templates("scratch") / "costume.svg").read_bytes()


def file_name() -> str:
    """The name of the file: the hash of its content."""
    return f"{_hash()}.svg"


def costume_entries(names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the first costume, and those of these names, in the form of a file.

    Raises: TextError if two have one name
    """
    costumes = [FIRST, *names]
    for name, count in Counter(costumes).items():
        if count > 1:
            raise TextError(
                "the costumes of a sprite must have different names", f"{count} are {name!r}", "rename them"
            )
    return [_entry(name) for name in costumes]


def _entry(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "assetId": _hash(),
        "md5ext": file_name(),
        "dataFormat": "svg",
        "bitmapResolution": 1,
        "rotationCenterX": 1,
        "rotationCenterY": 1,
    }


def _hash() -> str:
    return hashlib.md5(picture(), usedforsecurity=False).hexdigest()
