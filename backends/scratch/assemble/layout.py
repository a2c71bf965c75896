"""Layout of scripts and comments in the editor, by estimated sizes, without overlap."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..language.tree import Call, Constant, Definition, Operand, Script, Statement

GAP = 60
HAT, LINE, NESTED, ARM = 80, 56, 8, 40
CHARACTER, PADDING, INDENT = 8, 30, 16
COMMENT_WIDTH, COMMENT_BAR, COMMENT_LINE = 320, 60, 20


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment with its position and size."""

    text: str
    x: int
    y: int
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Placed:
    """The position of a script, and its comments in the order of their blocks."""

    x: int
    y: int
    comments: tuple[Comment, ...]


def places(scripts: list[Script | Definition]) -> list[Placed]:
    """Place scripts: hats and commented definitions in one column, other definitions in the next."""
    helpers = [isinstance(script, Definition) and not script.comment for script in scripts]
    placed: dict[int, Placed] = {}
    x = 0
    for column in (False, True):
        y, right = 0, x
        for place, script in enumerate(scripts):
            if helpers[place] is column:
                placed[place], below, beside = _place(script, x, y)
                y, right = below + GAP, max(right, beside + GAP)
        x = right
    return [placed[place] for place in range(len(scripts))]


def _place(script: Script | Definition, x: int, y: int) -> tuple[Placed, int, int]:
    """Place a script, and return it with its lower and right edges; comments are right of its blocks."""
    lines = [(0, HAT, script.comment, _head_width(script)), *_lines(script.body, 1)]
    right = x + max(indent * INDENT + width for indent, _, _, width in lines)
    top = below = y
    comments = []
    for _, height, comment, _ in lines:
        if comment:
            box = Comment(comment, right + GAP, max(top, below), COMMENT_WIDTH, _comment_height(comment))
            comments.append(box)
            below = box.y + box.height + GAP // 2
        top += height
    beside = right + GAP + COMMENT_WIDTH if comments else right
    return Placed(x, y, tuple(comments)), max(top, below), beside


def _lines(statements: tuple[Statement, ...], indent: int) -> Iterator[tuple[int, int, str, int]]:
    """Yield indentation, height, comment and width of each line of blocks."""
    for statement in statements:
        deepest = max((o.depth for o in statement.operands if isinstance(o, Call)), default=0)
        width = CHARACTER * len(statement.form) + PADDING + sum(map(_width, statement.operands))
        yield indent, LINE + NESTED * deepest, statement.comment, width
        for operand in statement.operands:
            if isinstance(operand, tuple):
                yield from _lines(operand, indent + 1)
                yield indent, ARM, "", 0


def _width(operand: Operand) -> int:
    if isinstance(operand, tuple):
        return 0
    if isinstance(operand, Call):
        return CHARACTER * len(operand.function) + PADDING + sum(map(_width, operand.operands))
    return PADDING + CHARACTER * len(str(operand.value) if isinstance(operand, Constant) else operand.name)


def _head_width(script: Script | Definition) -> int:
    if isinstance(script, Script):
        return CHARACTER * len(script.hat.form) + PADDING + sum(map(_width, script.hat.operands))
    return CHARACTER * len("define") + PADDING + _width(script.name) + sum(map(_width, script.arguments))


def _comment_height(comment: str) -> int:
    per_line = COMMENT_WIDTH // CHARACTER
    return COMMENT_BAR + COMMENT_LINE * sum(1 + len(line) // per_line for line in comment.split("\n"))
