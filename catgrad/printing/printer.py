"""Print functions as statements: choose the values that get a line of their own, and the text of each line.

All decisions are made here; the macros of a dialect only format.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, starmap, takewhile

import numpy as np

from catgrad.dims import Dim, Size, numbers
from catgrad.errors import OptionError
from catgrad.naming import Namer
from catgrad.ops.literal import ArrayLiteral
from catgrad.ops.scan import Scan
from catgrad.printing.dialect import ATOM, Call, Dialect, Literal, Pack, Unpack
from catgrad.printing.loops import printed_loop
from catgrad.printing.releases import is_large, postponed
from catgrad.printing.statements import Argument, Branch, FunctionText, Line, Part, Row, Statement, brackets
from catgrad.programs.ports import Port
from catgrad.programs.program import Apply, Function, Nested, applications, symbol_sources
from catgrad.terms.op import Op
from catgrad.terms.structural import Constant

MOST_OPERATIONS, MOST_CHARACTERS = 6, 60
"""Limits of an expression inside another; a larger one gets a line and a name of its own."""

FIRST_ELEMENT = 40
"""The greatest column at which a short array literal begins, after its name and the call."""


class Context:
    """The context of macros: shapes, sizes and elements in a dialect, and new names.

    `symbols` are the identifiers of sizes; those that lines mention are among the `sizes_read`.
    """

    def __init__(self, dialect: Dialect, namer: Namer) -> None:
        self.dialect, self.namer = dialect, namer
        self.symbols: dict[str, str] = {}
        self.sizes_read: set[str] = set()

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
        return brackets(nested.tolist(), FIRST_ELEMENT, 0)


class FunctionPrinter(Context):
    """Print one function in one dialect; its macros call back for shapes and sizes."""

    def __init__(self, function: Function, dialect: Dialect) -> None:
        self.function = function
        if function.name in dialect.reserved:
            raise OptionError(
                "a function must have a name that is free in the emitted file",
                f"it is {function.name!r}",
                "choose another name",
            )
        called = {each.op.function.name for each in applications(function) if isinstance(each.op, Call)}
        super().__init__(dialect, Namer(dialect.reserved | called))
        places = accumulate((port.rows or 1 for port in function.inputs), initial=0)
        arguments = zip(function.arguments, function.inputs, places, strict=False)
        self.arguments = tuple(starmap(self._argument, arguments))
        self.sources = self._sources()
        self.symbols = {name: self.namer.fresh(name) for name in self.sources}

    def print(self) -> FunctionText:
        """Return the statements, names and shapes of the function."""
        function = self.function
        printed = Lines(self, function, [a.identifier for a in self.arguments], postpones=True)
        lines, results = printed.print()
        read = frozenset(self.sizes_read)  # before the types of arguments are printed, which read all
        texts = {v: printed.text[v][0] for v, _ in self.sources.values()}
        arguments = function.arguments
        unpacked = tuple(takewhile(lambda line: isinstance(line, Row) and line.kind == "Unpack", lines))
        return FunctionText(
            name=function.name,
            doc=function.doc,
            kind=function.kind,
            tables=function.tables,
            changes=function.changes,
            own_arguments=tuple(a for a in self.arguments if not a.role.is_table),
            arguments=self.arguments,
            unpacked=unpacked,
            statements=lines[len(unpacked) :],
            results=results,
            symbols=tuple(
                (self.symbols[name], arguments.index(v), axis)
                for name, (v, axis) in self.sources.items()
                if v in arguments
            ),
            sizes_read=tuple(
                (self.symbols[name], texts[v], axis)
                for name, (v, axis) in self.sources.items()
                if self.symbols[name] in read
            ),
            shapes={type: self.shape(type.shape) for type in filter(None, function.argument_types)},
            requirements=tuple((self.size(size), least) for size, least in function.requirements),
        )

    def _sources(self) -> dict[str, tuple[int, int]]:
        """Find for each symbol an array, of the arguments or in rows, and an axis whose size it is."""
        rows = (v for apply in self.function.body if isinstance(apply.op, Unpack) for v in apply.outputs)
        arrays = [v for v in (*self.function.arguments, *rows) if self.function.types[v]]
        found = symbol_sources([self.function.types[v] for v in arrays])
        return {name: (arrays[k], axis) for name, (k, axis) in found.items()}

    @property
    def first_argument(self) -> str:
        """The text of the first array, from which a target may infer the device; or nothing."""
        arrays = [argument.array for argument in self.arguments if argument.type] or [
            argument.array for argument in self.arguments
        ]
        return arrays[0] if arrays else ""

    def _argument(self, value: int, port: Port, place: int) -> Argument:
        name, macros = self.function.names[value], self.dialect.macros
        # A target may keep the tables elsewhere than in arguments.
        kept = macros.get("kept") if port.role.is_table else None
        identifier = kept(name) if kept else self.namer.fresh(name)
        array = identifier if self.function.types[value] else macros["row"](identifier, 0)
        array = macros["row"](array, 0) if port.rows else array
        return Argument(identifier, name, self.function.types[value], port.role, array, place)


class Lines:
    """Print straight-line code: a function's, or that of a block within it, with its arguments' texts.

    It releases arrays where they were last read, or `postpones` that while memory does not grow by it.
    """

    def __init__(
        self, printer: Context, function: Function, arguments: Sequence[str], postpones: bool = False
    ) -> None:
        self.printer, self.function, self.dialect = printer, function, printer.dialect
        self.postpones = postpones
        self.uses = function.uses()
        self.text: dict[int, tuple[str, int, int]] = {}  # of each value: text, strength, operations
        for value, text in zip(function.arguments, arguments, strict=True):
            self.text[value] = text, ATOM, 0
        # Of each value that has a variable: the name without a number, after which rows are called.
        self.stems = {value: function.names[value] for value in function.arguments if value in function.names}
        self.inline: dict[int, tuple[Op, str]] = {}  # of each expression inside another: a name for it
        self.lines: list[Line] = []
        # Of each value: those whose variables its text mentions.
        self.mentions = {value: frozenset([value]) for value in function.arguments}
        self.made: dict[int, int] = {}  # of each variable's value: the line
        self.last_read: dict[int, int] = {}
        self.read_inside = {v for op, ins, _ in function.body if isinstance(op, Nested) for v in ins}
        self.last_reader = {value: apply for apply in function.body for value in apply.inputs}
        self.filled: set[int] = set()  # lists that loops fill
        self.borrowed: set[int] = set()  # arrays of rows that are read again
        self.places: dict[int, str] = {}  # of each value that is assigned to a row of a list: the row
        self.emptied: set[int] = (
            set()
        )  # arguments that are rows nobody reads later, lists whose rows are such

    def print(self) -> tuple[tuple[Line, ...], tuple[str, ...]]:
        """The lines, and the texts of the results."""
        for apply in self.function.body:
            if isinstance(apply.op, Nested):
                self._nested(apply.op, apply)
            else:
                self._apply(apply)
        return self._with_releases(), tuple(self.text[value][0] for value in self.function.results)

    def _apply(self, apply: Apply) -> None:
        op, inputs, outputs = apply
        if isinstance(op, (Pack, Unpack)):
            self._row(apply)
            return
        operands = [self._operand(op, i, value) for i, value in enumerate(inputs)]
        types = tuple(filter(None, (self.function.types[value] for value in outputs)))
        macro = self.dialect.macros[op.macro]
        expression = macro(self.printer, op, types[0] if types else None, *operands)
        size = 1 + sum(self.text[value][2] for value in inputs)
        short = size <= MOST_OPERATIONS and len(expression) <= MOST_CHARACTERS
        if len(outputs) == 1 and outputs[0] not in self.places and self._goes_inline(op, outputs[0], short):
            self.text[outputs[0]] = expression, self.dialect.strength(op), size
            self.inline[outputs[0]] = op, self.preferred_name(op, outputs[0], inputs)
            self.mentions[outputs[0]] = self._variables(inputs)
            return
        targets = self.assigned(outputs, [self.preferred_name(op, value, inputs) for value in outputs])
        self._read(inputs)
        self.lines.append(Statement(targets, expression, () if isinstance(op, Call) else types))

    def _row(self, apply: Apply) -> None:
        """Print a line that packs arrays into a row, or unpacks a row."""
        op, inputs, outputs = apply
        targets = self.assigned(outputs, [self.preferred_name(op, value, inputs) for value in outputs])
        self._read(inputs)
        texts = tuple(self.text[value][0] for value in inputs)
        if isinstance(op, Unpack):
            self.lines.append(Row(texts[0], targets, op.macro, op.last))
            self.borrowed.update(() if op.last else outputs)
        else:
            self.lines.append(Row(targets[0], texts, op.macro))

    def _nested(self, op: Nested, apply: Apply) -> None:
        operands = [self.text[value][0] for value in apply.inputs]
        self._read(apply.inputs)
        if isinstance(op.op, Scan):
            self.lines.append(printed_loop(self, op.op, op.functions[0], apply, operands))
            return
        printed = [self.inside(f, operands[1:]).print() for f in op.functions]
        targets = self.assigned(
            apply.outputs, [self.preferred_name(op.op, value, apply.inputs) for value in apply.outputs]
        )
        types = [self.function.types[value] for value in apply.outputs]
        parts = (Part(lines, tuple(zip(targets, results, types, strict=True))) for lines, results in printed)
        self.lines.append(Branch(operands[0], tuple(parts)))

    def inside(self, block: Function, arguments: Sequence[str]) -> Lines:
        """Return a printer of a block, with the texts of its arguments."""
        return Lines(self.printer, block, arguments)

    def assigned(self, values: Sequence[int], preferred: Sequence[str]) -> tuple[str, ...]:
        """Assign new variables to these values, or rows of lists."""
        fresh = self.printer.namer.fresh
        targets = tuple(self.places.get(v) or fresh(name) for v, name in zip(values, preferred, strict=True))
        self.text |= {value: (target, ATOM, 0) for value, target in zip(values, targets, strict=True)}
        self.stems |= zip(values, preferred, strict=True)
        self.made |= dict.fromkeys(values, len(self.lines))
        self.mentions |= {value: frozenset([value]) for value in values}
        return targets

    def _variables(self, values: Sequence[int]) -> frozenset[int]:
        return frozenset[int]().union(*(self.mentions.get(value, ()) for value in values))

    def _read(self, values: Sequence[int]) -> None:
        """Record that the next line reads these values."""
        self.last_read |= dict.fromkeys(self._variables(values), len(self.lines))

    def _with_releases(self) -> tuple[Line, ...]:
        """Mark in lines the large arrays that no later line reads."""
        arguments, types = self.function.arguments, self.function.types
        kept = self._variables(self.function.results) | self.borrowed
        released: dict[int, tuple[list[str], list[str]]] = {}
        last_read = {v: line for v, line in self.last_read.items() if v not in kept and is_large(types[v])}
        if self.postpones:
            last_read = postponed(last_read, self.made, types, self.lines)
        for value, line in sorted(last_read.items()):
            is_row = value in arguments
            if is_row == (value in self.emptied):
                released.setdefault(line, ([], []))[is_row].append(self.text[value][0])
        lines = list(self.lines)
        for i, (names, rows) in released.items():
            lines[i] = replace(lines[i], released=tuple(names), emptied=tuple(rows))
        return tuple(lines)

    def _operand(self, op: Op, position: int, value: int) -> str:
        text, strength, _ = self.text[value]
        if strength < self.dialect.required(op.macro, position):
            text = self.dialect.macros["parenthesised"](text)
        return text

    def _goes_inline(self, op: Op, value: int, short: bool) -> bool:
        if isinstance(op, Literal):
            return True
        # A loop would recompute an expression in each iteration.
        once = self.uses[value] == 1 and value not in self.read_inside
        return short and once and value not in self.function.names

    def preferred_name(self, op: Op, value: int, operands: Sequence[int]) -> str:
        """Return the name of a value, or one for what the operation computes."""
        named = self.function.names
        if isinstance(op, Constant) and self.uses[value] > 1:  # perhaps under several names
            return "zeros" if op.value == 0 else "ones" if op.value == 1 else "filled"
        if value in named:
            return named[value]
        if op.rearranges and operands[0] in self.inline:
            inside, name = self.inline[operands[0]]
            return op.result_name(name) if inside.rearranges else name
        return op.result_name(*(named.get(operand, "") for operand in operands))
