"""Callbacks of the parser: indentation, and a method for each rule of the grammar.

Loaded with the library lark by `parse.parser` only.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from inspect import cleandoc
from typing import Any, TypeVar

from lark import Token, Transformer, v_args
from lark.indenter import Indenter

from .palette import palette, stack_blocks
from .refused import refused
from .tree import (
    Argument,
    Call,
    Constant,
    Definition,
    Expression,
    List,
    Literal,
    Monitor,
    Name,
    Picture,
    Script,
    Section,
    Statement,
    Variable,
)

MAX_EXPRESSION_DEPTH = 200
"""The maximum nesting of reporters; virtual machines fail at some thousands."""

_ESCAPE = re.compile(r'\\([n"\\])')
_Point = tuple[Literal, Literal]
_Kind = TypeVar("_Kind")


class Comment(str):
    """A comment that stays in the program."""


class Indentation(Indenter):
    """Indentation in levels of 4 spaces, at most one deeper than the line before."""

    NL_type, INDENT_type, DEDENT_type = "_NEWLINE", "_INDENT", "_DEDENT"
    OPEN_PAREN_types, CLOSE_PAREN_types = ["LPAR", "LSQB"], ["RPAR", "RSQB"]  # names that lark expects
    tab_len = 4

    def handle_NL(self, token: Token) -> Any:
        """Return the changes of level at the end of a line."""
        spaces = len(token) - token.rindex("\n") - 1
        if self.paren_level == 0 and (spaces % 4 or spaces > self.indent_level[-1] + 4):
            raise refused(
                token.end_line or 0,
                "a line must be indented by 4 spaces more than the line it belongs to",
                f"it has {spaces} spaces after a line of {self.indent_level[-1]}",
                "indent it so",
            )
        return super().handle_NL(token)


@v_args(inline=True)
class Builders(Transformer[Token, tuple[Section, ...]]):
    """Builders of the tree: a method for each rule of the grammar, called with the parts of its symbols."""

    def start(self, *sections: Section) -> tuple[Section, ...]:
        return sections

    def sprite(self, name: Name, *parts: Any) -> Section:
        costumes = tuple(costume for names in _only(tuple, parts) for costume in names)
        pictures = _only(Picture, parts)
        own = tuple(part for part in parts if part != "hidden" and not isinstance(part, (tuple, Picture)))
        return Section(name, own, "hidden" in parts, costumes, *pictures)

    def stage(self, *parts: Any) -> Section:
        return Section(None, parts)

    def hidden(self, *words: Token) -> str:
        return "hidden"

    def costumes(self, *names: Constant) -> tuple[str, ...]:
        return tuple(str(name.value) for name in names)

    def picture(self, name: Constant, place: _Point) -> Picture:
        return Picture(str(name.value), place)

    def shared(self, declared: List | Variable) -> List | Variable:
        return replace(declared, shared=True)

    def list_empty(self, name: Name) -> List:
        return List(name)

    def list_zeros(self, name: Name, count: Token) -> List:
        return List(name, (0,) * _count(count))

    def list_given(self, name: Name, count: Token) -> List:
        return List(name, given=_count(count))

    def list_items(self, name: Name, *items: Constant) -> List:
        return List(name, tuple(item.value for item in items))

    def variable(self, name: Name, *initial: Constant) -> Variable:
        return Variable(name, initial[0].value if initial else None)

    def variable_monitor(self, name: Name, place: _Point, *slider: Constant) -> Monitor:
        return Monitor("variable", name, place, slider=self.point(*slider) if slider else None)

    def list_monitor(self, name: Name, place: _Point, *size: _Point) -> Monitor:
        return Monitor("list", name, place, *size)

    def point(self, x: Constant, y: Constant) -> _Point:
        return x.value, y.value

    def definition(self, *parts: object) -> Definition:
        slow = isinstance(parts[0], Token)
        names = _only(Name, parts)
        return Definition(names[0], names[1:], _only(Statement, parts), _comment(parts), slow)

    def script(self, hat: Statement, *parts: Comment | Statement) -> Script:
        return Script(hat, _only(Statement, parts), _comment(parts))

    def comment(self, written: Token) -> Comment:
        return Comment(cleandoc(_unescaped(written[3:-3])))

    def statement(self, *parts: Statement) -> Statement:
        [statement] = _only(Statement, parts)
        return replace(statement, comment=_comment(parts)) if len(parts) > 1 else statement

    def block(self, *parts: Statement) -> tuple[Statement, ...]:
        return _only(Statement, parts)

    def binary(self, left: Expression, operator: Token, right: Expression) -> Call:
        return _call(operator, str(operator), left, right)

    def unary(self, operator: Token, operand: Expression) -> Call:
        return _call(operator, str(operator), operand)

    def item(self, name: Name, index: Expression) -> Call:
        return _call(name, "item", name, index)

    def function(self, name: Name, *operands: Expression) -> Call:
        return _call(name, name.name, *operands)

    def argument(self, token: Token) -> Argument:
        return Argument(_name(token[1:]))

    def number(self, digits: Token) -> Constant:
        return Constant(_number(digits, digits.line))

    def negative(self, digits: Token) -> Constant:
        return Constant(_number("-" + digits, digits.line))

    def text(self, token: Token) -> Constant:
        return Constant(_unescaped(token[1:-1]))

    def name(self, token: Token) -> Name:
        return Name(_name(token), token.line or 0)


def _only(kind: type[_Kind], parts: tuple[object, ...]) -> tuple[_Kind, ...]:
    return tuple(part for part in parts if type(part) is kind)


def _comment(parts: tuple[object, ...]) -> str:
    return "".join(str(text) for text in _only(Comment, parts))


def _call(word: Token | Name, function: str, *operands: Expression) -> Call:
    call = Call(function, operands)
    if call.depth > MAX_EXPRESSION_DEPTH:
        raise refused(
            word.line or 0,
            f"an expression must be at most {MAX_EXPRESSION_DEPTH} blocks deep",
            f"it is {call.depth}",
            "assign a part of it to a variable",
        )
    return call


def _name(token: str) -> str:
    return token[1:-1].replace("``", "`") if token[0] == "`" else str(token)


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: "\n" if found[1] == "n" else found[1], text)


def _number(digits: str, line: int | None) -> int | float:
    value = float(digits)
    if math.isinf(value) or (value == 0 and digits[0] == "-"):
        raise refused(
            line or 0,
            "a number must be one that Scratch saves exactly",
            f"it is {digits}",
            "write a finite one, and zero without its sign",
        )
    return value if re.search("[.eE]", digits) else int(digits)


def _count(digits: Token) -> int:
    if not digits.isdigit() or len(digits) > 7:
        raise refused(
            digits.line or 0,
            "the number of items of a list must be an integer of at most 200,000",
            f"it is {digits}",
            "write one",
        )
    return int(digits)


def _statement(form: str) -> Any:
    def build(self: Builders, *parts: Any) -> Statement:
        operands = tuple(part for part in parts if not isinstance(part, Token))
        return Statement(form, operands, line=parts[0].line)

    return v_args(inline=True)(build)


for _form in ("call", *stack_blocks(), *palette()["hats"]):
    setattr(Builders, _form, _statement(_form))
