"""Errors in a text, with line numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from catgrad.errors import TextError


def refused(line: int, must: str, found: str, do: str) -> TextError:
    """Return the error for a line of a text."""
    return TextError(must, found, do, subject=f"line {line}")


@contextmanager
def at_line(line: int) -> Iterator[None]:
    """Add this line to errors raised within, unless they name another."""
    try:
        yield
    except TextError as error:
        raise error.about(f"line {line}") from None
