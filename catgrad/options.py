"""Validation of the options of targets, which are the fields of a dataclass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from catgrad.errors import OptionError, require_one_of

KINDS = {bool: "true or false", int: "a whole number", tuple: "a list of names"}
"""Descriptions of values, by the types of defaults; others are strings."""


def names(value: object) -> Any:
    """Return the names in a text with commas, or in a list, each once; anything else as it is."""
    listed = value.split(",") if isinstance(value, str) else value
    if not isinstance(listed, (list, tuple)) or not all(isinstance(name, str) for name in listed):
        return value
    return tuple(dict.fromkeys(name.strip() for name in listed if name.strip()))


def require_kinds(options: Any) -> None:
    """Raise OptionError unless each option has the type of its default, one of `KINDS` or a string."""
    for field in fields(options):
        value = getattr(options, field.name)
        if type(value) is not type(field.default) and not (
            isinstance(value, str) and isinstance(field.default, str)
        ):
            kind = KINDS.get(type(field.default), "a string")
            raise OptionError(f"{field.name} must be {kind}", f"it is {value!r}", "write one")


def require_choices(options: object, choices: Mapping[str, Sequence[str]]) -> None:
    """Raise OptionError unless each of these options is one of its choices, one of which may be empty."""
    for name, allowed in choices.items():
        value = getattr(options, name)
        if value not in allowed:
            require_one_of(name, value, filter(None, allowed))
