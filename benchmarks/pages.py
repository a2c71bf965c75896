"""Tables of measured figures in pages of the documentation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path


def markdown(headings: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown; the first column is on the left, all others are on the right."""
    marks = ["---", *["---:"] * (len(headings) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (headings, marks, *lines))


def write_table(page: Path, table: str) -> None:
    """Replace the table of a page that has the same first line."""
    text = page.read_text(encoding="utf-8")
    heading = re.escape(table.splitlines()[0])
    page.write_text(re.sub(rf"{heading}\n(?:\|.*\n?)*", lambda _: f"{table}\n", text), encoding="utf-8")
