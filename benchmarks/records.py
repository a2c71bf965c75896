"""JSON files of figures: a fact or a row a line, so that a new measurement is a short difference."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from catgrad.files import write_atomically


def keep(path: Path, figures: Mapping[str, Any]) -> None:
    """Write figures to a file, in folders that are created where they are missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, [text(figures).encode()])


def text(figures: Mapping[str, Any]) -> str:
    """Return JSON in which each fact is one line, and so is each row of a list of rows."""
    entries = (f"{json.dumps(name)}: {_lines(entry)}" for name, entry in figures.items())
    return "{\n" + ",\n".join(entries) + "\n}\n"


def _lines(entry: object) -> str:
    """Return the JSON of a list of rows by lines, that of anything else in one."""
    if isinstance(entry, (list, tuple)) and entry and isinstance(entry[0], dict):
        return "[\n" + ",\n".join(f"  {json.dumps(row)}" for row in entry) + "\n]"
    return json.dumps(entry)
