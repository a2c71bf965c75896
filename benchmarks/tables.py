"""Tables of rows, by columns: for the terminal, and for pages of the documentation."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks import records
from benchmarks.harness import duration, short
from benchmarks.records import Record, Row

Columns = Mapping[str, Callable[[Row], str]]
"""The cells of a row by their headings; a space at the end of a heading tells it from another."""

ABSENT = "does not"
"""The reason of a competitor that has no such measure."""


def cells(rows: Iterable[Row], columns: Columns) -> tuple[Sequence[str], list[list[str]]]:
    """Return the headings and the lines of a table."""
    headings = [heading.strip() for heading in columns]
    return headings, [[cell(row) for cell in columns.values()] for row in rows]


def table(rows: Iterable[Row], columns: Columns, title: str = "") -> Table:
    """Return a table for the terminal."""
    headings, lines = cells(rows, columns)
    found = Table(*headings, title=title, box=box.SIMPLE_HEAD)
    for line in lines:
        found.add_row(*line)
    return found


def markdown(headings: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown; the first column is on the left, all others are on the right."""
    marks = ["---", *["---:"] * (len(headings) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (headings, marks, *lines))


def write_table(page: Path, table: str) -> None:
    """Replace the table of a page that has the same first line."""
    text = page.read_text(encoding="utf-8")
    heading = re.escape(table.splitlines()[0])
    page.write_text(re.sub(rf"{heading}\n(?:\|.*\n?)*", lambda _: f"{table}\n", text), encoding="utf-8")
    print(f"written to {short(page)}")


def keep(record: Record, path: Path, page: Path, tables: Callable[[Sequence[Row]], Iterable[str]]) -> None:
    """Put rows in their file, and write the tables of a page from all that it has."""
    for each in tables(record.keep(path).rows):
        write_table(page, each)


def text(seconds: float | None) -> str:
    """Return a time, or a dash."""
    return "–" if seconds is None else duration(seconds)


def over(ratio: float | None) -> str:
    """Return a ratio, or a dash."""
    return "–" if ratio is None else f"{ratio:.3g}"


def percent(share: float | None) -> str:
    """Return a share, or a dash."""
    return "–" if share is None else f"{share:.0%}"


def counted(number: int | None) -> str:
    """Return a number with separators, or a dash."""
    return "–" if number is None else f"{number:,}"


def fact(name: str) -> Callable[[Row], str]:
    """Return the cell of a fact of a row."""
    return lambda row: str(row.facts[name])


def figure(name: str, shown: Callable[[Any], str], competitor: str = "") -> Callable[[Row], str]:
    """Return the cell of a figure of a competitor, by default ours."""
    return lambda row: shown(row.results[competitor or row.mine].get(name))


def times(names: Iterable[str], named: str = "seconds") -> Columns:
    """Return a column with a time of each competitor."""
    return {name: lambda row, name=name: text(row.seconds(name, named)) for name in names}


WHAT: Columns = {"what": lambda row: row.what}
OURS: Columns = {"ours": lambda row: text(row.seconds(row.mine))}
BESIDE: Columns = {
    "fastest peer": lambda row: row.fastest or "none",
    "its time": lambda row: text(min(row.peers().values(), default=None)),
    "ratio": lambda row: over(row.ratio),
}
GOAL: Columns = {"goal": lambda row: row.goal}
COMPARISON: Columns = {**WHAT, **OURS, **BESIDE, **GOAL}
"""Our time beside that of the fastest peer, and the goal."""


def pair(what: str, seconds: float, peer: str, peer_seconds: float, goal: str = "") -> Row:
    """Return the row of a time and that of a peer."""
    return Row(what, {records.OURS: {"seconds": seconds}, peer: {"seconds": peer_seconds}}, goal)


def report(name: str, title: str, command: str, rows: Sequence[Row], keep: bool) -> None:
    """Print the table, and keep it under benchmarks/results if that is asked for."""
    Console(width=130).print(table(rows, COMPARISON, title))
    if keep:
        Record(f"{command} --keep", rows).keep(records.path_of(name))


def names_of(rows: Iterable[Row]) -> list[str]:
    """Return the names of all competitors, in order."""
    return list(dict.fromkeys(name for row in rows for name in row.results))


def everyone(rows: Sequence[Row], named: str = "seconds", title: str = "") -> Table:
    """Compare all competitors by a time."""
    return table(rows, {**WHAT, **times(names_of(rows), named)}, title)


def reasons(rows: Iterable[Row]) -> list[str]:
    """List the reasons for missing figures, but for measures that a competitor does not have."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for name, result in row.results.items():
            if (reason := result.get("reason", "")) not in ("", ABSENT):
                found.setdefault((name, reason), []).append(row.what)
    return [f"{name}, {', '.join(where)}: {reason}" for (name, reason), where in found.items()]
