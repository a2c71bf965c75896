"""Costumes and their pictures: a sprite has one picture, whatever the names of its costumes."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from functools import cache

from catgrad.errors import TextError, nearest

from ... import templates

FIRST = "costume1"
"""The name of the costume that every sprite has."""

NO_PICTURE = ""
"""The name of the empty picture, that of the stage and of sprites without another."""

SIZES = {NO_PICTURE: (2, 2), "net": (40, 30)}
"""Width and height of each picture."""


@cache
def picture(name: str) -> bytes:
    """Return a picture as SVG."""
    return (templates("scratch") / f"{name or 'costume'}.svg").read_bytes()


def file_name(name: str) -> str:
    """Return the name of a picture's file: the hash of its content."""
    return f"{_hash(name)}.svg"


def costume_entries(names: Sequence[str], shown: str) -> list[dict[str, object]]:
    """Return the first costume, and those of these names, with one picture, in the form of a file.

    Raises: TextError if two have one name, or there is no such picture
    """
    if shown not in SIZES:
        pictures = list(filter(None, SIZES))
        raise TextError(
            f"the picture of a sprite must be one of {', '.join(pictures)}",
            f"it is {shown!r}",
            nearest(shown, pictures) + "leave it out for an empty one",
        )
    costumes = [FIRST, *names]
    for name, count in Counter(costumes).items():
        if count > 1:
            raise TextError(
                "the costumes of a sprite must have different names", f"{count} are {name!r}", "rename them"
            )
    return [_entry(name, shown) for name in costumes]


def _entry(name: str, shown: str) -> dict[str, object]:
    width, height = SIZES[shown]
    return {
        "name": name,
        "assetId": _hash(shown),
        "md5ext": file_name(shown),
        "dataFormat": "svg",
        "bitmapResolution": 1,
        "rotationCenterX": width // 2,
        "rotationCenterY": height // 2,
    }


def _hash(name: str) -> str:
    return hashlib.md5(picture(name), usedforsecurity=False).hexdigest()
