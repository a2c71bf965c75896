"""From a function to statements: which values get a line of their own, and what each line says.

A dialect is a set of macros, one for each operation the target has, and a table of how tightly
they bind. Everything is decided here; the macros only spell.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from catgrad.dims import Dim, Size, numbers
from catgrad.naming import Namer
from catgrad.op import Op
from catgrad.ops.literal import ArrayLiteral
from catgrad.program import Apply, Function, Program, symbol_sources
from catgrad.structural import Constant
from catgrad.types import Dtype, NdArrayType

ATOM = 100
"""How tightly names, calls and literals bind: no operand needs parentheses around them."""

MOST_OPERATIONS, MOST_CHARACTERS = 6, 40
"""Of an expression inside another, beyond which it gets a line and a name of its own."""

FIRST_ELEMENT = 40
"""The column by which a short array literal begins, behind its name and the call."""


LARGEST_WHOLE = {Dtype.float16: 100, Dtype.bfloat16: 100}
"""Up to which a floating-point number is written like an integer, by dtype, and 1000 for others: NumPy 1
widens float32 for an integer of more than 16 bits, and float16 for one of more than 8.
"""


class Literal(Op, register=False):
    """A number written where it is used. A `weak` one takes the dtype of what it meets."""

    constant: Constant
    weak: bool

    @property
    def digits(self) -> str:
        """The shortest digits that give the number back; small whole ones without a fraction."""
        digits = self.constant.digits
        largest = LARGEST_WHOLE.get(self.constant.array_type.dtype, 1000)
        small = abs(self.constant.value) <= largest and digits != "-0.0"
        return digits.removesuffix(".0") if small else digits


@dataclass(frozen=True)
class Dialect:
    """The macros of a target; `binding[name]` is how tightly a macro's text binds, then how
    tightly each operand must. A macro without an entry spells a call.
    """

    macros: Mapping[str, Callable[..., str]]
    binding: Mapping[str, Sequence[int]]
    reserved: frozenset[str]

    def has(self, op: Op) -> bool:
        """Whether there is a macro for this operation."""
        return type(op).__name__ in self.macros

    def strength(self, op: Op) -> int:
        """How tightly the text of an operation binds."""
        return self.binding.get(type(op).__name__, (ATOM,))[0]

    def required(self, op: Op, position: int) -> int:
        """How tightly the operand at this position must bind to go without parentheses."""
        needs = self.binding.get(type(op).__name__, (ATOM,))[1:]
        return needs[min(position, len(needs) - 1)] if needs else 0


@dataclass(frozen=True)
class Statement:
    """One line: what is assigned, the expression, and the types of what is assigned."""

    targets: tuple[str, ...]
    expression: str
    types: tuple[NdArrayType, ...]


@dataclass(frozen=True)
class Argument:
    """An argument: its identifier, the name users know it by, and its type."""

    identifier: str
    name: str
    type: NdArrayType


@dataclass(frozen=True)
class FunctionText:
    """All that a template needs to spell a function.

    `symbols` holds each size read at run time: identifier, position of an argument, axis.
    `sizes_read` are those of them the statements mention. The arguments are those of the tables it
    `takes`, then `own_arguments`.
    """

    name: str
    doc: str
    takes: tuple[str, ...]
    own_arguments: tuple[Argument, ...]
    arguments: tuple[Argument, ...]
    statements: tuple[Statement, ...]
    results: tuple[str, ...]
    symbols: tuple[tuple[str, int, int], ...]
    sizes_read: tuple[tuple[str, int, int], ...]
    shapes: Mapping[NdArrayType, str]


def fill(items: Sequence[str], start: int, indent: int, width: int = 100) -> str:
    """Items with commas between, the first at column `start`; broken into lines if they are long."""
    line = ", ".join(items)
    if start + len(line) <= width:
        return line
    margin = " " * indent
    rows = textwrap.wrap(line, width - indent, break_long_words=False, break_on_hyphens=False)
    return "\n" + "".join(f"{margin}{row}\n" for row in rows) + " " * max(indent - 4, 0)


def brackets(items: Any, start: int, indent: int, width: int = 100) -> str:
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


class FunctionPrinter:
    """Prints one function of a program in one dialect."""

    def __init__(self, program: Program, function: Function, dialect: Dialect) -> None:
        self.common = program.common_arguments(function)
        self.function, self.dialect = function, dialect
        self.namer = Namer(dialect.reserved)
        self.uses = function.uses()
        self.text: dict[int, tuple[str, int, int]] = {}  # of each value: text, strength, operations
        self.sizes_read: set[str] = set()
        self.statements: list[Statement] = []

    def print(self) -> FunctionText:
        """The statements, names and shapes of the function."""
        function = self.function
        arguments = tuple(self._argument(value) for value in function.arguments)
        sources = symbol_sources(function.argument_types)
        self.symbols = {name: self.namer.fresh(name) for name in sources}
        for apply in function.body:
            self._apply(apply)
        read = frozenset(self.sizes_read)  # before the types of arguments are spelled, which read all
        symbols = tuple((self.symbols[name], *place) for name, place in sources.items())
        return FunctionText(
            name=function.name,
            doc=function.doc,
            takes=function.takes,
            own_arguments=arguments[self.common :],
            arguments=arguments,
            statements=tuple(self.statements),
            results=tuple(self.text[value][0] for value in function.results),
            symbols=symbols,
            sizes_read=tuple(entry for entry in symbols if entry[0] in read),
            shapes={type: self.shape(type.shape) for type in function.argument_types},
        )

    @property
    def first_argument(self) -> str:
        """The identifier of the first argument, from which a target may learn the device; or nothing."""
        arguments = self.function.arguments
        return self.text[arguments[0]][0] if arguments else ""

    def shape(self, shape: Sequence[Size]) -> str:
        """A shape in the target's words."""
        return self.dialect.macros["shape"]([self.size(size) for size in shape])

    def size(self, size: Size) -> str:
        """A size in the target's words: a number, or a polynomial in the sizes read at run time."""
        if not isinstance(size, Dim):
            return str(size)
        self.sizes_read.update(self.symbols[name] for name in size.symbols)
        terms = [(c, [self.symbols[name] for name in m]) for m, c in size.terms]
        return self.dialect.macros["polynomial"](terms)

    def elements(self, literal: ArrayLiteral) -> str:
        """The elements of an array literal in the target's words, in brackets nested as its axes are."""
        texts = [self.dialect.macros["number"](digits) for digits in literal.digits]
        nested = np.array(texts, object).reshape(numbers(literal.array_type.shape))
        return brackets(nested.tolist(), FIRST_ELEMENT, 4)

    def _argument(self, value: int) -> Argument:
        name = self.function.names[value]
        identifier = self.namer.fresh(name)
        self.text[value] = identifier, ATOM, 0
        return Argument(identifier, name, self.function.types[value])

    def _apply(self, apply: Apply) -> None:
        op, inputs, outputs = apply
        operands = [self._operand(op, i, value) for i, value in enumerate(inputs)]
        types = tuple(self.function.types[value] for value in outputs)
        macro = self.dialect.macros[type(op).__name__]
        expression = macro(self, op, types[0], *operands)
        size = 1 + sum(self.text[value][2] for value in inputs)
        short = size <= MOST_OPERATIONS and len(expression) <= MOST_CHARACTERS
        if len(outputs) == 1 and self._goes_inline(op, outputs[0], short):
            self.text[outputs[0]] = expression, self.dialect.strength(op), size
            return
        targets = tuple(self.namer.fresh(self._wish(op, value)) for value in outputs)
        self.statements.append(Statement(targets, expression, types))
        for value, target in zip(outputs, targets, strict=True):
            self.text[value] = target, ATOM, 0

    def _operand(self, op: Op, position: int, value: int) -> str:
        text, strength, _ = self.text[value]
        if strength < self.dialect.required(op, position):
            text = self.dialect.macros["parenthesised"](text)
        return text

    def _goes_inline(self, op: Op, value: int, short: bool) -> bool:
        if isinstance(op, Literal):
            return True
        return short and self.uses[value] == 1 and value not in self.function.names

    def _wish(self, op: Op, value: int) -> str:
        return self.function.names.get(value) or op.result or type(op).__name__.lower()
