"""Statements: the lines of functions as data for templates, and long lists broken into rows."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from catgrad.programs.ports import Kind, Role
from catgrad.types import NdArrayType


@dataclass(frozen=True)
class Statement:
    """One line: what is assigned, the expression, and the types of what is assigned.

    As after every line, `released` are large arrays that no later one reads, `emptied` such rows of lists.
    """

    targets: tuple[str, ...]
    expression: str
    types: tuple[NdArrayType, ...]
    released: tuple[str, ...] = ()
    emptied: tuple[str, ...] = ()
    kind: str = ""


@dataclass(frozen=True)
class Row:
    """One line that makes a list of arrays (`Pack`), or assigns them and perhaps clears it (`Unpack`)."""

    name: str
    arrays: tuple[str, ...]
    kind: str
    last: bool = False
    released: tuple[str, ...] = ()
    emptied: tuple[str, ...] = ()


@dataclass(frozen=True)
class Stack:
    """An array that a loop fills: its name, the expression for a row in each iteration, and its shape.

    A row without an expression is the target of a line of the loop.
    """

    name: str
    value: str
    shape: str
    type: NdArrayType


@dataclass(frozen=True)
class Loop:
    """Lines repeated: `carries` are names with initial values, `rows` names with the arrays they are rows of.

    After the lines each carry gets its new value, all of them `simultaneous`, as a parallel
    assignment, where one reads another. A loop that `always_runs` does so at every size.
    """

    index: str
    length: str
    backwards: bool
    carries: tuple[tuple[str, str, NdArrayType], ...]
    rows: tuple[tuple[str, str, NdArrayType], ...]
    lines: tuple[Line, ...]
    stacks: tuple[Stack, ...]
    renewed: tuple[tuple[str, str], ...]
    simultaneous: bool
    always_runs: bool
    released: tuple[str, ...] = ()
    emptied: tuple[str, ...] = ()
    kind: str = "Scan"


@dataclass(frozen=True)
class Part:
    """Lines, and assignments after them."""

    lines: tuple[Line, ...]
    assignments: tuple[tuple[str, str, NdArrayType], ...]


@dataclass(frozen=True)
class Branch:
    """Parts of which one runs: the first where the condition holds."""

    condition: str
    parts: tuple[Part, ...]
    released: tuple[str, ...] = ()
    emptied: tuple[str, ...] = ()
    kind: str = "Cond"


Line = Statement | Row | Loop | Branch


@dataclass(frozen=True)
class Argument:
    """An argument: its identifier, the name users know it by, its type and its role.

    `array` is the text of it, or of the first array of a list, and `place` its position among all arrays.
    """

    identifier: str
    name: str
    type: NdArrayType
    role: Role
    array: str
    place: int


@dataclass(frozen=True)
class FunctionText:
    """A function as data for templates.

    `symbols` has each size read at run time: identifier, position of an argument, axis.
    `sizes_read` are those of them the statements mention: identifier, array, axis. Lines that unpack rows of
    arguments come first, in `unpacked`. `requirements` are expressions of sizes, with the
    least value of each. The arguments are those of `tables`, then `own_arguments`; `changes` are the tables
    of which it returns new values.
    """

    name: str
    doc: str
    kind: Kind
    tables: tuple[Role, ...]
    changes: tuple[Role, ...]
    own_arguments: tuple[Argument, ...]
    arguments: tuple[Argument, ...]
    unpacked: tuple[Line, ...]
    statements: tuple[Line, ...]
    results: tuple[str, ...]
    symbols: tuple[tuple[str, int, int], ...]
    sizes_read: tuple[tuple[str, str, int], ...]
    shapes: Mapping[NdArrayType, str]
    requirements: tuple[tuple[str, int], ...] = ()


def fill(items: Sequence[str], start: int, indent: int, width: int = 100) -> str:
    """Items with commas between, the first at column `start`; broken into lines if they are long."""
    line = ", ".join(items)
    if start + len(line) <= width:
        return line
    margin = " " * indent
    rows = textwrap.wrap(line, width - indent, break_long_words=False, break_on_hyphens=False)
    return "\n" + "".join(f"{margin}{row}\n" for row in rows) + " " * max(indent - 4, 0)


def brackets(items: Any, start: int, indent: int, width: int = 96) -> str:
    """Nested lists of texts, the first at column `start`; on one line if they fit, else one on each."""
    if isinstance(items, str):
        return items
    inner = indent + 4
    texts = [brackets(item, inner, inner, width - 1) for item in items]
    line = f"[{', '.join(texts)}]"
    if start + len(line) <= width and "\n" not in line:
        return line
    if isinstance(items[0], str):
        return f"[{fill(texts, width, inner, width)}]"
    return "[\n" + "".join(f"{' ' * inner}{text},\n" for text in texts) + " " * indent + "]"
