"""Printing of names, texts, numbers and comments of the language, for templates."""

from __future__ import annotations

import re
import sys
from functools import cache

from catgrad.errors import OptionError

from .parse import parser

_BARE = re.compile(r"[~A-Za-z_][~A-Za-z0-9_.]*")


def name(text: str) -> str:
    """Quote a name by backticks where necessary.

    Raises: OptionError if it is empty or has more than one line
    """
    if not text or "\n" in text:
        raise OptionError("a name must be one line of text", f"it is {text!r}", "write a word or a few")
    if _BARE.fullmatch(text) and text not in _keywords():
        return text
    return f"`{text.replace('`', '``')}`"


def literal(value: float | str) -> str:
    """Print a constant. Raises: OptionError for a number that is not finite."""
    if isinstance(value, str):
        escaped = value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
        return f'"{escaped}"'
    if not abs(value) <= sys.float_info.max:
        raise OptionError("a constant must be finite", f"it is {value}", "check the model's constants")
    return repr(int(value) if value == int(value) and abs(value) < 2**53 else float(value))


def comment(text: str) -> str:
    """Print a comment that stays in the program."""
    return f'""{literal(text)}""'


@cache
def _keywords() -> frozenset[str]:
    """Return the keywords of the language, which must be quoted as names."""
    patterns = (terminal.pattern.value for terminal in parser().terminals)
    return frozenset(word for word in patterns if _BARE.fullmatch(word))
