"""Names, texts and numbers as the language writes them: what templates print a program with."""

from __future__ import annotations

import re
import sys
from functools import cache

from catgrad.errors import OptionError

from .parse import parser

_BARE = re.compile(r"[~A-Za-z_][~A-Za-z0-9_.]*")


def name(text: str) -> str:
    """A name, in backticks if it could be read as something else.

    Raises: OptionError if it is empty or has more than one line
    """
    if not text or "\n" in text:
        raise OptionError("a name must be one line of text", f"it is {text!r}", "write a word or a few")
    if _BARE.fullmatch(text) and text not in _words():
        return text
    return f"`{text.replace('`', '``')}`"


def literal(value: float | str) -> str:
    """A constant. Raises: OptionError for a number that is not finite."""
    if isinstance(value, str):
        escaped = value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
        return f'"{escaped}"'
    if not abs(value) <= sys.float_info.max:
        raise OptionError("a constant must be finite", f"it is {value}", "check the model's constants")
    return repr(int(value) if value == int(value) and abs(value) < 2**53 else float(value))


def comment(text: str) -> str:
    """A comment that stays in the program."""
    return f'""{literal(text)}""'


@cache
def _words() -> frozenset[str]:
    """The words of the language, which are no bare names even where the grammar could tell."""
    patterns = (terminal.pattern.value for terminal in parser().terminals)
    return frozenset(word for word in patterns if _BARE.fullmatch(word))
