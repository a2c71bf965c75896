"""Functions of a program as JavaScript functions: shared kernels, and calls of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from catgrad.backend import Backend
from catgrad.loops.ir.scalar import Buffer
from catgrad.loops.machine import Machine
from catgrad.loops.passes import PASSES
from catgrad.loops.passes.schedule.unroll import unroll
from catgrad.loops.passes.simplify.bind import RegisterCosts, binder
from catgrad.loops.printing.functions import FunctionPrinter, KernelLibrary
from catgrad.naming import Namer
from catgrad.programs.ports import TABLES, Port, Role
from catgrad.programs.program import Function, Program

from ..c.interface import CArgument, Signature

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


class Library:
    """The functions of one program, which share kernels and literals."""

    machine = MACHINE

    def __init__(self, backend: Backend, program: Program) -> None:
        self.program, self.dialect, self.helpers = program, backend.dialect, set[str]()
        self.macros: dict[str, Any] = {**self.dialect.macros, "helper": self.helper}
        kernels = KernelLibrary(self.dialect, self.machine, Namer(self.dialect.reserved))
        # All are compiled before kernels are printed, whose names fit all functions.
        self.printers = {f.name: FunctionPrinter(kernels, f) for f in program.functions}

    def helper(self, name: str) -> str:
        """Record that a line needs a function of the runtime; returns its name."""
        self.helpers.add(name)
        return name

    def function(self, function: Function) -> JavaScriptFunction:
        """Print a function."""
        printer, macros = self.printers[function.name], self.macros
        inputs = self._passed(printer, printer.lowered.arguments, function.inputs)
        outputs = self._passed(printer, printer.lowered.results, function.outputs)
        calls, texts, size = printer.calls(), printer.texts, printer.expressions.size
        self.helpers.update(*(text.helpers for text in texts))
        body = macros["body"](macros, calls, printer.pointers, size(printer.plan.size))
        kernels = macros["kernels"](macros, printer.new_literals, printer.new)
        return JavaScriptFunction.of(function, inputs, outputs, size, body=body, kernels=kernels)

    def context(self) -> dict[str, Any]:
        """Print all functions; returns the variables that templates read."""
        functions = {f.name: self.function(f) for f in self.program.functions}
        return {
            **model_context(self.program),
            "functions": functions,
            "kinds": {kind: functions[f.name] for kind, f in self.program.kinds.items()},
            "helpers": frozenset(self.helpers),
        }

    def _passed(
        self, printer: FunctionPrinter, buffers: Sequence[Buffer], ports: Sequence[Port]
    ) -> list[CArgument]:
        """Name every argument or result; returns those that are not members of tables."""
        own = []
        for buffer, port in zip(buffers, ports, strict=True):
            if port.role.is_table or port.role is Role.GRADIENT:
                printer.names[buffer] = self.macros["member"](port.role, port.name)
            else:
                name = port.name or buffer.name
                named = replace(port, name=name, type=buffer.type)
                own.append(CArgument.of(printer.fresh(buffer, name), named, printer.expressions.size))
        return own


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
    return Library(backend, program).context()
