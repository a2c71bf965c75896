"""Print tables and paths: for a terminal, as JSON, or only names with `--quiet`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from enum import Enum
from pathlib import Path

import typer

from catgrad import tables
from catgrad.errors import one_line

Cell = str | int | float | Sequence[str]
"""A cell of a table: names in a sequence are separated by commas in a terminal."""
Table = tuple[Sequence[str], Sequence[Sequence[Cell]]]
"""A header, and rows."""


class Format(Enum):
    """The form of the output."""

    TEXT = "text"
    JSON = "json"
    QUIET = "quiet"


FORMAT: ContextVar[Format] = ContextVar("FORMAT", default=Format.TEXT)
"""The form that the command line chose."""


def show(header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
    """Print a table: in JSON a list with an object for each row, and quietly its first column."""
    table = header, list(rows)
    if FORMAT.get() is Format.JSON:
        _print_json(_objects(table))
    elif FORMAT.get() is Format.QUIET:
        for row in table[1]:
            typer.echo(one_line(_text(row[0])))
    else:
        _print_table(table)


def show_table(table: tables.Table) -> None:
    """Print a table with its total and notes; without these, in JSON its rows, quietly its first column."""
    if FORMAT.get() is Format.TEXT:
        typer.echo(table)
    elif FORMAT.get() is Format.JSON:
        _print_json(_objects((table.header, table.rows)))
    else:
        for row in table.rows:
            typer.echo(row[0])


def show_all(tables: Mapping[str, Table]) -> None:
    """Print tables one after the other: in JSON an object with each by its name, and quietly the first."""
    if FORMAT.get() is Format.JSON:
        _print_json({name: _objects(table) for name, table in tables.items()})
        return
    for header, rows in list(tables.values())[: 1 if FORMAT.get() is Format.QUIET else None]:
        show(header, rows)


def report(header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
    """Print a table whose verdict is the exit status: quietly, nothing."""
    if FORMAT.get() is not Format.QUIET:
        show(header, rows)


def show_paths(paths: Iterable[Path]) -> None:
    """Print the files that were written: in JSON a list, and quietly nothing."""
    if FORMAT.get() is Format.JSON:
        _print_json([str(path) for path in paths])
    elif FORMAT.get() is Format.TEXT:
        for path in paths:
            typer.echo(path)


def show_options(meaning: str, options: Mapping[str, object], spelled: Mapping[str, str]) -> None:
    """Print the options of a target, with their values where none is given."""
    if FORMAT.get() is Format.JSON:
        _print_json({"meaning": meaning, "options": options})
        return
    if FORMAT.get() is Format.TEXT:
        typer.echo(meaning)
    for name, value in spelled.items():
        typer.echo(name if FORMAT.get() is Format.QUIET else f"  --option {name}={value}")


def _objects(table: tuple[Sequence[str], Sequence[Sequence[object]]]) -> list[dict[str, object]]:
    header, rows = table
    names = [name.replace(" ", "_") for name in header]
    return [dict(zip(names, row, strict=True)) for row in rows]


def _print_json(value: object) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def _text(cell: Cell) -> str:
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, float):
        return f"{cell:.2g}"
    return str(cell) if isinstance(cell, (str, int)) else ", ".join(cell)


def _print_table(table: Table) -> None:
    """Print cells as plain text, without markup."""
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    header, rows = table
    drawn = RichTable(box=box.SIMPLE_HEAD)
    for name in header:
        drawn.add_column(name, overflow="fold")
    for row in rows:
        drawn.add_row(*(Text(one_line(_text(cell))) for cell in row))
    Console().print(drawn)
