"""Functions of a program in a kernel language: their kernels, which equal ones share, and calls of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from catgrad.backend import Backend
from catgrad.loops.ir.scalar import Buffer
from catgrad.loops.machine import Machine
from catgrad.loops.printing.calls import CallLine
from catgrad.loops.printing.expressions import Expressions
from catgrad.loops.printing.functions import FunctionPrinter, KernelLibrary
from catgrad.naming import Namer
from catgrad.programs.ports import Port
from catgrad.programs.program import Function, Program
from catgrad.programs.segments import pattern

from .signatures import ArrayArgument, Signature, every_size, initials, is_separate

S = TypeVar("S", bound=Signature)
"""The class that describes a function."""


class Functions(ABC, Generic[S]):
    """The functions of one program as data for templates."""

    def __init__(self, backend: Backend, program: Program) -> None:
        self.program, self.dialect = program, backend.dialect

    @abstractmethod
    def function(self, function: Function) -> S:
        """Describe a function."""

    def context(self) -> dict[str, Any]:
        """Describe all functions, the initial ones last; returns the variables that templates read."""
        last = sorted(self.program.functions, key=lambda f: f.kind.is_initial)
        printed = {f.name: self.function(f) for f in last}
        functions = {f.name: printed[f.name] for f in self.program.functions}
        kinds = {kind: functions[f.name] for kind, f in self.program.kinds.items()}
        common = {"sizes": every_size(functions), "initials": initials(functions)}
        return {"functions": functions, "kinds": kinds, **common}


class KernelFunctions(Functions[S]):
    """Functions that call kernels, in a language whose macros print both."""

    signature: type[S]

    def __init__(self, backend: Backend, program: Program, kernels: KernelLibrary) -> None:
        super().__init__(backend, program)
        self.kernels, self.helpers = kernels, set[str]()
        self.macros: dict[str, Any] = {**self.dialect.macros, "helper": self.helper}
        self.printers: dict[str, FunctionPrinter] = {}

    @abstractmethod
    def member(self, printer: FunctionPrinter, buffer: Buffer, port: Port) -> str:
        """Return the text of an argument or result that is a member of a table, or the gradient of one."""

    @abstractmethod
    def fields(
        self, function: Function, inputs: Sequence[ArrayArgument], outputs: Sequence[ArrayArgument]
    ) -> dict[str, Any]:
        """Print a function; returns the fields by which its class extends a signature."""

    def helper(self, name: str) -> str:
        """Record that a line needs a function or number of the runtime; returns its name."""
        self.helpers.add(name)
        return name

    def compiled(self) -> dict[str, FunctionPrinter]:
        """Compile all functions, before kernels are printed, whose names fit all of them."""
        return {f.name: FunctionPrinter(self.kernels, f) for f in self.program.functions}

    def context(self) -> dict[str, Any]:
        """Print all functions; returns the variables that templates read."""
        self.printers = self.compiled()
        return {**super().context(), "helpers": frozenset(self.helpers)}

    def function(self, function: Function) -> S:
        """Print a function, with the kernels that no function before it has."""
        printer = self.printers[function.name]
        inputs, outputs = self.passed(printer, function)
        fields = self.fields(function, inputs, outputs)
        return self.signature.of(function, inputs, outputs, printer.expressions.size, **fields)

    def calls(self, printer: FunctionPrinter) -> tuple[CallLine, ...]:
        """The calls of kernels that a function consists of, whose helpers are recorded."""
        calls = printer.calls()
        self.helpers.update(*(text.helpers for text in printer.texts))
        return calls

    def passed(
        self, printer: FunctionPrinter, function: Function
    ) -> tuple[list[ArrayArgument], list[ArrayArgument]]:
        """Name all arguments and results; returns those that are passed by themselves."""
        arguments = self._passed(printer, printer.lowered.arguments, function.inputs)
        return arguments, self._passed(printer, printer.lowered.results, function.outputs)

    def _passed(
        self, printer: FunctionPrinter, buffers: Sequence[Buffer], ports: Sequence[Port]
    ) -> list[ArrayArgument]:
        passed = []
        for buffer, port in zip(buffers, ports, strict=True):
            if is_separate(port):
                name = port.name or buffer.name
                named = replace(port, name=name, type=buffer.type)
                identifier = printer.fresh(buffer, name)
                passed.append(ArrayArgument.of(identifier, named, printer.expressions.size))
            else:
                printer.names[buffer] = self.member(printer, buffer, port)
        return passed


@dataclass(frozen=True)
class PrintedFunction(Signature):
    """A function as data for templates, with the kernels that no function before it has."""

    body: str
    kernels: str


class PrintedFunctions(KernelFunctions[PrintedFunction]):
    """Functions whose calls and kernels the macros `body`, `kernels` and `member` print, for one machine."""

    signature: type[PrintedFunction] = PrintedFunction
    machine: Machine
    expressions: type[Expressions] = Expressions

    def __init__(self, backend: Backend, program: Program) -> None:
        namer = Namer(backend.dialect.reserved)
        kernels = KernelLibrary(backend.dialect, self.machine, namer, expressions=self.expressions)
        super().__init__(backend, program, kernels)
        self.ports: dict[Buffer, Port] = {}
        """Those of the arrays of tables."""

    def fields(
        self, function: Function, inputs: Sequence[ArrayArgument], outputs: Sequence[ArrayArgument]
    ) -> dict[str, Any]:
        """Print a function; returns the fields of PrintedFunction that a signature lacks."""
        printer, macros = self.printers[function.name], self.macros
        calls, size = self.calls(printer), printer.expressions.size(printer.plan.size)
        return {
            "body": macros["body"](macros, calls, printer.pointers, size),
            "kernels": macros["kernels"](macros, printer.new_literals, printer.new),
        }

    def passed(
        self, printer: FunctionPrinter, function: Function
    ) -> tuple[list[ArrayArgument], list[ArrayArgument]]:
        """Name all arguments and results, and rows of layers by their numbers; returns as the base does."""
        printer.row_of = self._row
        return super().passed(printer, function)

    def member(self, printer: FunctionPrinter, buffer: Buffer, port: Port) -> str:
        """Return the text of an array of a table."""
        self.ports[buffer] = port
        return str(self.macros["member"](port.role, port.name))

    def _row(self, arrays: Sequence[Buffer], number: str) -> str | None:
        """Name the array of an iteration by its number, if names of one table differ in nothing else."""
        ports = [self.ports[array] for array in arrays if array in self.ports]
        found = pattern([port.name for port in ports]) if len(ports) == len(arrays) else None
        if found is None or len({port.role for port in ports}) > 1:
            return None
        return str(self.macros["row_member"](ports[0].role, *found, number))
