"""Lists in emitted text, filled into lines that are not long."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

MARGIN = 8
"""The column of lists that are too long for lines at their own column."""

WIDTH = 110
"""Columns of a line that is not long."""


def fits(line: str) -> bool:
    """Tell whether a line is not long."""
    return len(line) <= WIDTH


def filled(head: str, items: str | Sequence[str]) -> str:
    """Return the head of a line and a list after it; a list below it has a margin by that of the head."""
    indent = len(head) - len(head.lstrip())
    return head + listed(items, len(head), margin=max(MARGIN, indent + 4))


def stacked(head: str, items: Sequence[str], end: str) -> str:
    """Return a list between its head and end in one line, or, if that is long, in one for each item."""
    line, below = f"{head}{', '.join(items)}{end}", "\n" + " " * (len(head) - len(head.lstrip()) + 4)
    wrap = textwrap.TextWrapper(WIDTH + 7 - len(below), break_long_words=False, break_on_hyphens=False).wrap
    each = (f"{below}    ".join(wrap(item)) for item in items)
    return line if fits(line) else f"{head}{below}{f',{below}'.join(each)}{end}"


def listed(
    items: str | Sequence[str], start: int, separator: str = ", ", width: int = WIDTH, margin: int = MARGIN
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
