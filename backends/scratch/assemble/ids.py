"""Identifiers of blocks, variables and comments: short, the same on every run, different in every sprite."""

from __future__ import annotations

from hashlib import sha256
from string import ascii_letters, digits

_DIGITS = digits + ascii_letters


class Ids:
    """Identifiers for one sprite: a part of its name's hash, so that no sprites share any, and a count."""

    def __init__(self, sprite: str) -> None:
        self._prefix = sha256(sprite.encode()).hexdigest()[:6]
        self._count = 0

    def fresh(self) -> str:
        """The next one."""
        count, text = self._count, ""
        while count or not text:
            count, digit = divmod(count, 62)
            text = _DIGITS[digit] + text
        self._count += 1
        return self._prefix + text


def shared_id(kind: str, name: str) -> str:
    """The identifier of a variable, list or message for all sprites: the same in all files."""
    return sha256(f"{kind} {name}".encode()).hexdigest()[:12]
