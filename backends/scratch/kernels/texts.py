"""Lines of scripts: what the macros of templates print."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


class Expression(str):
    """The text of an expression of reporter blocks; names and numbers have none, and are plain strings."""

    reporters: int

    def __new__(cls, text: str, reporters: int) -> Expression:
        """Annotate a text with its number of reporters."""
        made = super().__new__(cls, text)
        made.reporters = reporters
        return made


def reporters(text: str) -> int:
    """Count the reporters of a text."""
    return text.reporters if isinstance(text, Expression) else 0


@dataclass(frozen=True)
class Set:
    """Set a variable."""

    name: str
    value: str


@dataclass(frozen=True)
class Change:
    """Add a value to a variable."""

    name: str
    value: str


@dataclass(frozen=True)
class Replace:
    """Replace an item of a list."""

    list: str
    index: str
    value: str


@dataclass(frozen=True)
class Append:
    """Append an item to a list."""

    list: str
    value: str


@dataclass(frozen=True)
class Clear:
    """Delete all items of a list."""

    list: str


@dataclass(frozen=True)
class Repeat:
    """Repeat lines a number of times."""

    count: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class If:
    """Run lines where a condition holds, and others where it does not."""

    condition: str
    lines: tuple[Line, ...]
    others: tuple[Line, ...] = ()


@dataclass(frozen=True)
class Require:
    """End the script with an error unless a number is an index below a size."""

    value: str
    size: str


@dataclass(frozen=True)
class Call:
    """Call a custom block; if it `may_fail`, the script ends where it did."""

    name: str
    may_fail: bool = False
    arguments: tuple[str, ...] = ()


Line = Set | Change | Replace | Append | Clear | Repeat | If | Require | Call


def blocks(lines: tuple[Line, ...]) -> int:
    """Count the blocks of lines."""
    return sum(map(_blocks, lines))


def _blocks(line: Line) -> int:
    if isinstance(line, Repeat):
        return 1 + blocks(line.lines)
    if isinstance(line, If):
        return 1 + reporters(line.condition) + blocks(line.lines) + blocks(line.others)
    if isinstance(line, Require):
        return 9 + 3 * reporters(line.value)
    return 1 + own_reporters(line) + (4 if isinstance(line, Call) and line.may_fail else 0)


def own_reporters(line: Line) -> int:
    """Count the reporters of a line, without those of lines within it."""
    texts = [text for text in vars(line).values() if isinstance(text, str)]
    return sum(map(reporters, [*texts, *(line.arguments if isinstance(line, Call) else ())]))


def changed(lines: tuple[Line, ...]) -> list[str]:
    """Find the variables that lines set or change."""
    return [line.name for line in _every(lines) if isinstance(line, (Set, Change))]


def written(lines: tuple[Line, ...]) -> set[str]:
    """Find the lists in which lines replace items."""
    return {line.list for line in _every(lines) if isinstance(line, Replace)}


def cleared(lines: tuple[Line, ...]) -> set[str]:
    """Find the lists that lines clear and fill again."""
    return {line.list for line in _every(lines) if isinstance(line, Clear)}


def _every(lines: tuple[Line, ...]) -> Iterator[Line]:
    """Yield all lines, also those inside loops and branches."""
    for line in lines:
        yield line
        if isinstance(line, Repeat):
            yield from _every(line.lines)
        elif isinstance(line, If):
            yield from _every((*line.lines, *line.others))
