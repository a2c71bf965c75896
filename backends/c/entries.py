"""Functions of a program as C functions: kernels shared between them, and calls of these."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from catgrad.backend import Backend
from catgrad.loops.compile import compile_kernels
from catgrad.loops.ir.nest import Kernel
from catgrad.loops.ir.scalar import Buffer, Space
from catgrad.loops.ir.steps import For, If, Step, kernels
from catgrad.loops.memory_plan import planned
from catgrad.naming import Namer
from catgrad.programs.ports import TABLES, Kind, Port, Role
from catgrad.programs.program import Function, Program
from catgrad.types import symbols

from .halves import stored
from .interface import Entry, entry, prefix
from .kernels import KernelPrinter
from .machine import MACHINE
from .scalars import Expressions
from .texts import Branches, Call, CallLine, KernelText, Literal, Pointer, Turns
from .workspace import workspace

KERNELS = ("check", "compute_*")
"""Names of kernels, as words and patterns that are reserved in the functions that call them."""


@dataclass(frozen=True)
class CArgument:
    """An argument or a result of its own: its identifier, its name, its type and how many elements it has."""

    identifier: str
    name: str
    type: Any
    length: str


@dataclass(frozen=True)
class CFunction:
    """All that templates need of a function.

    Its `workspace` is how many bytes it takes, which for some sizes may be none, and `limit` are lines that
    compute the `most` that any size, index or number of bytes comes to; `requirements` are sizes with the
    least value of each.
    """

    name: str
    doc: str
    kind: Kind
    entry: Entry
    sizes: tuple[str, ...]
    inputs: tuple[CArgument, ...]
    outputs: tuple[CArgument, ...]
    body: str
    workspace: str
    may_be_empty: bool
    limit: str
    requirements: tuple[tuple[str, int], ...]
    kernels: str


class Library:
    """The functions of one program, and the kernels they have in common."""

    def __init__(self, backend: Backend, program: Program) -> None:
        self.dialect, self.program = backend.dialect, program
        self.namer = Namer([*self.dialect.reserved, *(f.name for f in program.functions)])
        self.printed: dict[Hashable, KernelText] = {}
        self.literals: dict[Literal, str] = {}
        self.helpers: set[str] = set()
        self.tables = {
            table: members(program, table, self.dialect.reserved)
            for table in TABLES
            if program.tables.get(table)
        }
        self.members = {slot.name: identifier for each in self.tables.values() for slot, identifier in each}

    def helper(self, name: str) -> str:
        """Record that a line needs a function or number of the runtime; returns its name."""
        self.helpers.add(name)
        return name

    def function(self, function: Function) -> CFunction:
        """A function as text, with the kernels that no function before it has."""
        return _Entry(self, function).print()


class _Entry:
    def __init__(self, library: Library, function: Function) -> None:
        self.library, self.function, self.program = library, function, library.program
        self.dialect = library.dialect
        self.macros: dict[str, Any] = {**library.dialect.macros, "helper": library.helper}
        self.lowered = compile_kernels(function, MACHINE, function.renewed())
        self.plan = planned(self.lowered)
        self.expressions = Expressions(self.dialect, lambda array: array.name)
        self.namer = Namer([*self.dialect.reserved, *KERNELS, *symbols(function.argument_types)])
        self.places: dict[Buffer, str] = {}
        self.new: list[KernelText] = []
        self.known: dict[Kernel, tuple[KernelText, list[Buffer], list[Any]]] = {}
        self.new_literals: list[Literal] = []
        self.literal_names: dict[Buffer, str] = {}

    def print(self) -> CFunction:
        inputs, outputs = self._own_arguments(), self._own_results()
        pointers = [self._pointer(array) for array in self.plan.offsets]
        calls = self._calls(self.lowered.steps, {})
        macros = self.macros
        used = set(self._names_used(calls))
        texts = [self._kernel(kernel)[0] for kernel in kernels(self.lowered.steps)]
        size = self.expressions.size
        requirements = tuple((size(r.size), r.least) for r in self.function.requirements)
        reach = self.expressions.reach
        memory = workspace(self.lowered, self.plan, texts, reach, size)
        body = macros["body"](macros, calls, [p for p in pointers if p.name in used], memory)
        return CFunction(
            self.function.name, self.function.doc, self.function.kind, entry(self.function),
            tuple(symbols(self.function.argument_types)), tuple(inputs), tuple(outputs), body,
            macros["workspace"](macros, memory), memory.may_be_empty, macros["limit"](macros, memory),
            requirements, macros["kernels"](macros, self.new_literals, self.new),
        )  # fmt: skip

    def _own_arguments(self) -> list[CArgument]:
        """Place every argument; returns those that are passed one by one."""
        own = []
        for array, port in zip(self.lowered.arguments, self.function.inputs, strict=True):
            if port.role.is_table or port.role is Role.GRADIENT:
                self.places[array] = self._member(port)
            else:
                own.append(self._named(array))
        return own

    def _own_results(self) -> list[CArgument]:
        """Place every result; returns those that are passed one by one."""
        own = []
        for array, port in zip(self.lowered.results, self.function.outputs, strict=True):
            if port.role.is_table or port.role is Role.GRADIENT:
                self.places[array] = self._member(port)
            else:
                own.append(self._named(array, port.name))
        return own

    def _member(self, port: Port) -> str:
        """The member of a table's struct, or of that of the gradients, which has the same members."""
        return self.dialect.macros["member"](port.role, self.library.members[port.name])

    def _named(self, array: Buffer, name: str = "") -> CArgument:
        name = name or array.name
        identifier = self.places[array] = self.namer.fresh(name)
        return CArgument(identifier, name, array.type, self.expressions.size(array.type.size))

    def _pointer(self, array: Buffer) -> Pointer:
        self.places[array] = self.namer.fresh(array.name)
        shape = tuple(array.type.shape[axis] for axis in array.order)
        offset = self.expressions.size(self.plan.offsets[array])
        return Pointer(array.type.dtype, self.places[array], offset, self.expressions.shape(shape))

    def _calls(self, steps: Sequence[Step], around: dict[Any, str]) -> tuple[CallLine, ...]:
        lines: list[CallLine] = []
        for step in steps:
            if isinstance(step, For):
                name = self.namer.fresh("t")
                inside = {**around, step.variable: name}
                extent = self.expressions.size(step.variable.extent)
                lines.append(Turns(name, extent, step.backwards, self._calls(step.body, inside)))
            elif isinstance(step, If):
                array = step.condition.buffer
                self.expressions.variables |= around
                index = self.expressions.index(array.flat(step.condition.indices))
                condition = self.dialect.macros["element"](self._place(array), index)
                lines.append(Branches(condition, tuple(self._calls(p, around) for p in step.parts)))  # type: ignore[arg-type]
            else:
                assert isinstance(step, Kernel)  # the machine inlines products into loops
                lines.append(self._call(step, around))
        return tuple(lines)

    def _place(self, array: Buffer) -> str:
        return self.places[array.alias if array.alias is not None else array]

    def _call(self, kernel: Kernel, around: dict[Any, str]) -> Call:
        text, given, free = self._kernel(kernel)
        arguments = [*text.sizes[: len(text.sizes) - len(free)], *(around[v] for v in free)]
        arguments += [self._place(array) for array in given]
        given_memory = [*["memory"] * text.scratch, *["scratch_bytes"] * text.per_thread]
        failure = f"{prefix(self.program).upper()}_BAD_INDEX"
        return Call(text.name, (*arguments, *given_memory), text.checks, failure)

    def _kernel(self, kernel: Kernel) -> tuple[KernelText, list[Buffer], list[Any]]:
        """The kernel's function, which may be that of an equal one, and what it is called with."""
        if kernel not in self.known:
            self.known[kernel] = self._found(kernel)
        return self.known[kernel]

    def _found(self, kernel: Kernel) -> tuple[KernelText, list[Buffer], list[Any]]:
        printer = KernelPrinter(kernel, self.dialect, self.plan, self.literal_names)
        self._declare(printer.arrays)
        key = printer.signature.key
        if key not in self.library.printed:
            written = next((a for a in printer.arrays if a in printer.changed and not a.is_of_kernel), None)
            name = self.library.namer.fresh(f"compute_{written.name}" if written else "check")
            text = self.library.printed[key] = printer.print(name)
            self.library.helpers |= text.helpers
            self.new.append(text)
        return self.library.printed[key], printer.given, printer.free

    def _declare(self, arrays: Sequence[Buffer]) -> None:
        for array in arrays:
            if array.space is Space.LITERAL:
                length = self.expressions.size(array.type.size)
                elements = tuple(stored(element, array.type.dtype) for element in array.elements)
                literal = Literal(array.type.dtype, "", length, elements)
                if literal not in self.library.literals:
                    self.library.literals[literal] = self.library.namer.fresh(array.name)
                    self.new_literals.append(replace(literal, name=self.library.literals[literal]))
                self.literal_names[array] = self.library.literals[literal]

    def _names_used(self, lines: Sequence[CallLine]) -> list[str]:
        found: list[str] = []
        for line in lines:
            if isinstance(line, Call):
                found += line.arguments
            elif isinstance(line, Turns):
                found += self._names_used(line.lines)
            else:
                found += [
                    line.condition.split("[")[0],
                    *(n for part in line.parts for n in self._names_used(part)),
                ]
        return found


def members(program: Program, table: Role, reserved: frozenset[str]) -> list[tuple[Any, str]]:
    """The slots of a table, and what they are called in its struct."""
    namer = Namer(reserved)
    return [(slot, namer.fresh(slot.name)) for slot in program.tables.get(table, ())]


def spelled(backend: Backend, program: Program) -> dict[str, Any]:
    """What the templates of the target c are given."""
    library = Library(backend, program)
    functions = {f.name: library.function(f) for f in program.functions}
    return {
        "functions": functions,
        "kinds": {kind: functions[f.name] for kind, f in program.kinds.items()},
        "tables": library.tables,
        "helpers": frozenset(library.helpers),
    }
