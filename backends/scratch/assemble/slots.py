"""Slots of blocks: the shadow of each kind of input, and constants."""

from __future__ import annotations

import re

from catgrad.errors import TextError

from ..language.tree import Constant
from .numbers import written

_SHADOWS = {"number": 4, "positive": 5, "whole": 6, "index": 7, "color": 9, "text": 10}
_EMPTY = {"color": "#000000"}
_LOOKS = {
    "color": ("a color such as #ff8000", re.compile("#[0-9a-fA-F]{6}")),
    "text": ("text", re.compile("(?s:.*)")),
}
_NUMBER = ("a number", re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?"))


def empty(kind: str) -> list[object]:
    """Return the shadow block of a slot."""
    return [_SHADOWS[kind], _EMPTY.get(kind, "")]


def constant(kind: str, value: Constant) -> list[object]:
    """Return a constant in a slot. Raises: TextError if the slot does not accept it."""
    looks, pattern = _LOOKS.get(kind, _NUMBER)
    if not pattern.fullmatch(str(value.value)):
        raise TextError(f"the constant must be {looks}", f"it is {value.value!r}", "write one")
    return [_SHADOWS[kind], written(value.value)]
