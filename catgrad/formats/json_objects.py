"""JSON objects from files: names must be unique, and numbers finite."""

from __future__ import annotations

import json
from typing import Any, NoReturn


def parse_object(text: bytes) -> dict[str, Any]:
    """Parse a JSON object. Raises: ValueError if it is not one, or a name occurs twice; RecursionError."""
    table = json.loads(text.decode(), object_pairs_hook=_without_repeats, parse_constant=_refuse)
    if not isinstance(table, dict):
        raise ValueError("its JSON is no table")
    return table


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("a name occurs twice")
    return table


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
