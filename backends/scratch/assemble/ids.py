"""Identifiers of blocks, variables and comments: short, deterministic, unique across sprites."""

from __future__ import annotations

from hashlib import sha256
from string import ascii_letters, digits

_DIGITS = digits + ascii_letters


class Ids:
    """Identifiers for one sprite: a prefix of the hash of its name, and a counter."""

    def __init__(self, sprite: str) -> None:
        self._prefix = sha256(sprite.encode()).hexdigest()[:6]
        self._count = 0

    def fresh(self) -> str:
        """Return the next identifier."""
        count, text = self._count, ""
        while count or not text:
            count, digit = divmod(count, 62)
            text = _DIGITS[digit] + text
        self._count += 1
        return self._prefix + text


def shared_id(kind: str, name: str) -> str:
    """Return the identifier of a shared variable, list or message, equal in all files."""
    return sha256(f"{kind} {name}".encode()).hexdigest()[:12]
