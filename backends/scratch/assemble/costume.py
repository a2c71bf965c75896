"""The one small picture that all sprites have."""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any

from ... import templates


@cache
def picture() -> bytes:
    """The picture as SVG."""
    return (templates("scratch") / "costume.svg").read_bytes()


def file_name() -> str:
    """Its name in a file, the hash of what it holds."""
    return f"{_hash()}.svg"


def costume_entry() -> dict[str, Any]:
    """The costume in the form of a file."""
    return {
        "name": "costume1",
        "assetId": _hash(),
        "md5ext": file_name(),
        "dataFormat": "svg",
        "bitmapResolution": 1,
        "rotationCenterX": 1,
        "rotationCenterY": 1,
    }


def _hash() -> str:
    return hashlib.md5(picture(), usedforsecurity=False).hexdigest()
