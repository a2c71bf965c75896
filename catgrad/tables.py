"""Tables as aligned text: a header, rows, a last row of totals, and sentences below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catgrad.dims import Size


@dataclass(frozen=True)
class Table:
    """Cells by row and column; the first `texts` columns are text, and the others numbers.

    It prints as aligned text: numbers to the right, `total` below a line, and `notes` at the end.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    total: Sequence[str] = ()
    notes: Sequence[str] = ()
    texts: int = 1

    def __str__(self) -> str:
        every = [self.header, *self.rows, *([self.total] if self.total else [])]
        widths = [max(map(len, column)) for column in zip(*every, strict=True)]
        line = "─" * (sum(widths) + 2 * (len(widths) - 1))
        printed = [self._row(row, widths) for row in every]
        printed.insert(1, line)
        if self.total:
            printed.insert(-1, line)
        return "\n".join((*printed, *self.notes))

    def _row(self, cells: Sequence[str], widths: Sequence[int]) -> str:
        aligned = (
            cell.ljust(width) if k < self.texts else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return "  ".join(aligned).rstrip()


def spelled(count: Size | None) -> str:
    """Format a count with separators of thousands, a polynomial if it is symbolic, or a dash for none."""
    if count is None:
        return "–"
    return f"{count:,}" if isinstance(count, int) else str(count).replace("*", "·")
