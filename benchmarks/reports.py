"""Reports of few rows: a table of times beside peers, which replaces the rows that are kept."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from benchmarks import records
from benchmarks.records import OURS, Record, Row
from benchmarks.tables import COMPARISON, table


def beside(what: str, seconds: float, peer: str, peer_seconds: float, goal: str = "") -> Row:
    """Return the row of a time and that of a peer."""
    return Row(what, {OURS: {"seconds": seconds}, peer: {"seconds": peer_seconds}}, goal)


def report(name: str, title: str, command: str, rows: Sequence[Row], keep: bool) -> None:
    """Print the table, and keep it under benchmarks/results if that is asked for."""
    Console(width=130).print(table(rows, COMPARISON, title))
    if keep:
        path = records.path_of(name)
        records.added(Record(f"{command} --keep", rows), path).keep(path)
