"""Split long scripts into custom blocks, because TurboWarp runs only short ones fast."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .texts import Call, Line, Repeat, Set, blocks

Lines = tuple[Line, ...]

MIN_PART_BLOCKS = 10
"""Minimum blocks of a part of a loop that becomes a custom block; shorter ones stay inline."""


def cut(lines: Lines, longest: int, define: Callable[[Lines], str]) -> list[Lines]:
    """Split lines into parts of at most `longest` blocks; in long loops, parts become calls of new blocks."""
    return _parts(tuple(_shortened(line, longest, define) for line in lines), longest)


def _shortened(line: Line, longest: int, define: Callable[[Lines], str]) -> Line:
    if not isinstance(line, Repeat) or blocks(line.lines) <= longest:
        return line
    parts = cut(line.lines, longest, define)
    if sum(blocks(part) >= MIN_PART_BLOCKS for part in parts) > 1:
        parts = [part if blocks(part) < MIN_PART_BLOCKS else (Call(define(part)),) for part in parts]
    return Repeat(line.count, tuple(each for part in parts for each in part))


def _parts(lines: Lines, longest: int) -> list[Lines]:
    parts: list[Lines] = []
    for unit in _units(lines):
        if parts and blocks((*parts[-1], *unit)) <= longest:
            parts[-1] = (*parts[-1], *unit)
        else:
            parts.append(unit)
    return parts


def _units(lines: Lines) -> Iterator[Lines]:
    """Group lines that stay together: a loop and the variables set before it, known to be numbers there."""
    waiting: list[Line] = []
    for line in lines:
        waiting.append(line)
        if not isinstance(line, Set):
            yield tuple(waiting)
            waiting = []
    if waiting:
        yield tuple(waiting)
