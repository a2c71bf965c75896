"""Lists in emitted text, filled into lines that are not long."""

from __future__ import annotations

from collections.abc import Sequence

MARGIN = 8
"""The column of lists that are too long for lines at their own column."""


def listed(
    items: str | Sequence[str], start: int, separator: str = ", ", width: int = 110, margin: int = MARGIN
) -> str:
    """Join items, or those of a text with commas, into lines that are not long.

    They begin at column `start`, or below it at column `margin`, where that saves lines.
    """
    parts = items.strip().split(", ") if isinstance(items, str) else items
    lines, below = (_filled(parts, column, separator, width) for column in (start, margin))
    longest = start + max(map(len, parts), default=0)
    if start > margin and (longest > width or len(below) + 1 < len(lines)):
        return "".join(f"\n{' ' * margin}{line}" for line in below)
    return f"\n{' ' * start}".join(lines)


def _filled(parts: Sequence[str], start: int, separator: str, width: int) -> list[str]:
    """Fill lines from a column with parts."""
    lines, line = [], ""
    for part in parts:
        longer = f"{line}{separator}{part}" if line else part
        if line and start + len(longer) > width:
            lines.append(line + separator.rstrip())
            longer = part
        line = longer
    return [*lines, line]
