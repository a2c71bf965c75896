"""How an error in a text is said."""

from __future__ import annotations

from catgrad.errors import TextError


def refused(line: int, must: str, found: str, do: str) -> TextError:
    """The error for a line of a text."""
    return TextError(must, found, do, subject=f"line {line}")
