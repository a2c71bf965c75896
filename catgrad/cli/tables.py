"""Tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from catgrad.errors import one_line


def show(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table whose cells are plain text, without markup."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD)
    for name in header:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(Text(one_line(cell)) for cell in row))
    Console().print(table)
