"""Functions of a program as JavaScript functions: shared kernels, and calls of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from catgrad.backend import Backend
from catgrad.loops.ir.scalar import Buffer
from catgrad.loops.machine import Machine
from catgrad.loops.passes import PASSES
from catgrad.loops.passes.schedule.unroll import unroll
from catgrad.loops.passes.simplify.bind import RegisterCosts, binder
from catgrad.loops.printing.expressions import Expressions
from catgrad.loops.printing.functions import FunctionPrinter, KernelLibrary
from catgrad.naming import Namer
from catgrad.programs.ports import TABLES, Port
from catgrad.programs.program import Function, Program

from ..kernels.functions import KernelFunctions
from ..kernels.signatures import ArrayArgument, Signature

MACHINE = Machine(
    PASSES,
    (unroll, binder(RegisterCosts())),
    multiplies_matrices=True,
    float64_sums=True,
    locals_once=True,
    passes_rows=True,
)
"""Sums are in float64, which V8 adds faster than it rounds each sum to float32."""

METHODS = ("constructor", "load", "parameters", "buffers", "save", "state", "terminate")
"""The members that every model has."""


@dataclass(frozen=True)
class JavaScriptFunction(Signature):
    """A function as data for templates, with the kernels that no function before it has."""

    body: str
    kernels: str


J = TypeVar("J", bound=JavaScriptFunction)


class ModuleFunctions(KernelFunctions[J]):
    """The functions of one program as methods of a class."""

    machine = MACHINE
    expressions: type[Expressions] = Expressions

    def __init__(self, backend: Backend, program: Program) -> None:
        namer = Namer(backend.dialect.reserved)
        kernels = KernelLibrary(backend.dialect, self.machine, namer, expressions=self.expressions)
        super().__init__(backend, program, kernels)

    def fields(
        self, function: Function, inputs: Sequence[ArrayArgument], outputs: Sequence[ArrayArgument]
    ) -> dict[str, Any]:
        """Print a function; returns the fields of JavaScriptFunction that a signature lacks."""
        printer, macros = self.printers[function.name], self.macros
        calls, size = self.calls(printer), printer.expressions.size(printer.plan.size)
        return {
            "body": macros["body"](macros, calls, printer.pointers, size),
            "kernels": macros["kernels"](macros, printer.new_literals, printer.new),
        }

    def member(self, printer: FunctionPrinter, buffer: Buffer, port: Port) -> str:
        """Return the text of an array of a table."""
        return str(self.macros["member"](port.role, port.name))

    def context(self) -> dict[str, Any]:
        """Print all functions; returns the variables that templates read."""
        return {**model_context(self.program), **super().context()}


class JavaScriptFunctions(ModuleFunctions[JavaScriptFunction]):
    """The functions of one program, whose kernels are JavaScript too."""

    signature = JavaScriptFunction


def model_context(program: Program) -> dict[str, Any]:
    """Return what the class of models adds: the slots of tables, and the name of the method of a function."""
    slots = {table: program.tables[table] for table in TABLES if program.tables.get(table)}
    return {"slots": slots, "methods": methods(program)}


def methods(program: Program) -> dict[str, str]:
    """Name the method of each function."""
    namer = Namer(METHODS)
    return {f.name: namer.fresh(f.name) for f in program.functions}


def template_context(backend: Backend, program: Program) -> dict[str, Any]:
    """Return the variables that the templates of the target javascript read."""
    return JavaScriptFunctions(backend, program).context()
