"""Tables: cells by row and column, a last row of totals, and sentences below, as aligned text and as HTML."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from catgrad.dims import Size

Cell = str | Size | float | None
"""Text or a number; None is an unknown number."""


@dataclass(frozen=True)
class Table:
    """Cells by row and column; the first `texts` columns are text, and the others numbers.

    It prints as aligned text: numbers to the right, `total` below a line, and `notes` at the end.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    total: Sequence[Cell] = ()
    notes: Sequence[str] = ()
    texts: int = 1

    def __str__(self) -> str:
        cells = [self.header, *self.rows, *([self.total] if self.total else [])]
        every = [[*map(spelled, row)] for row in cells]
        widths = [max(map(len, column)) for column in zip(*every, strict=True)]
        line = "─" * (sum(widths) + 2 * (len(widths) - 1))
        printed = [self._row(row, widths) for row in every]
        printed.insert(1, line)
        if self.total:
            printed.insert(-1, line)
        return "\n".join((*printed, *self.notes))

    def _repr_html_(self) -> str:
        """Return the table for a notebook."""
        rows = "".join(self._cells(row, "td") for row in self.rows)
        foot = f"<tfoot>{self._cells(self.total, 'th')}</tfoot>" if self.total else ""
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        head = f"<thead>{self._cells(self.header, 'th')}</thead>"
        return f"<table>{head}<tbody>{rows}</tbody>{foot}</table>{notes}"

    def _cells(self, row: Sequence[Cell], tag: str) -> str:
        """Return a row of HTML, with numbers to the right."""
        sides = ("left" if k < self.texts else "right" for k in range(len(row)))
        cells = zip(sides, map(spelled, row), strict=True)
        return "<tr>" + "".join(f'<{tag} align="{side}">{escape(c)}</{tag}>' for side, c in cells) + "</tr>"

    def _row(self, cells: Sequence[str], widths: Sequence[int]) -> str:
        aligned = (
            cell.ljust(width) if k < self.texts else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return "  ".join(aligned).rstrip()


class Tabular(ABC):
    """An object that prints as its table, in a notebook too."""

    @property
    @abstractmethod
    def table(self) -> Table:
        """The table."""

    def __repr__(self) -> str:
        return str(self.table)

    def _repr_html_(self) -> str:
        return self.table._repr_html_()


def spelled(cell: Cell) -> str:
    """Format a cell: integers by thousands, symbolic sizes as polynomials, unknown numbers as –."""
    if cell is None:
        return "–"
    if isinstance(cell, str):
        return cell
    if isinstance(cell, float):
        return f"{cell:.3g}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell).replace("*", "·")
