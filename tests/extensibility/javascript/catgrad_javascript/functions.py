"""Functions of a program as JavaScript functions: shared kernels, and calls of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from catgrad.backend import Backend
from catgrad.loops.ir.scalar import Buffer
from catgrad.loops.machine import Machine
from catgrad.loops.passes import PASSES, unroll
from catgrad.loops.passes.bind import RegisterCosts, binder
from catgrad.loops.printing.functions import FunctionPrinter, KernelLibrary
from catgrad.naming import Namer
from catgrad.programs.ports import Port, Role
from catgrad.programs.program import Function, Program
from catgrad.types import NdArrayType, symbols

MACHINE = Machine(PASSES, (unroll, binder(RegisterCosts())), float64_sums=True)


@dataclass(frozen=True)
class TypedArray:
    """An array argument or result, perhaps a member of a table, and its number of elements."""

    identifier: str
    type: NdArrayType
    length: str


class Library:
    """The functions of one program, which share kernels and literals."""

    def __init__(self, backend: Backend, program: Program) -> None:
        self.dialect, self.helpers = backend.dialect, set[str]()
        self.macros = {**self.dialect.macros, "helper": lambda name: self.helpers.add(name) or name}
        self.namer = Namer(self.dialect.reserved)
        self.identifiers = {f.name: self.namer.fresh(f.name) for f in program.functions}
        self.kernels = KernelLibrary(self.dialect, MACHINE, self.namer)

    def function(self, function: Function) -> dict[str, Any]:
        """Print a function, with the kernels that no earlier one has; `sizes` have minimum values."""
        printer, macros = FunctionPrinter(self.kernels, function), self.macros
        inputs = self._passed(printer, printer.lowered.arguments, function.inputs)
        outputs = self._passed(printer, printer.lowered.results, function.outputs)
        calls, texts, size = printer.calls(), printer.texts, printer.expressions.size
        self.helpers.update(*(text.helpers for text in texts))
        least = {size(r.size): r.least for r in function.requirements}
        names = symbols(function.argument_types)
        own = [x.identifier for x in (*inputs, *outputs) if x.identifier.isidentifier()]
        return {
            "name": function.name,
            "identifier": self.identifiers[function.name],
            "doc": function.doc,
            "parameters": [*containers(function), *names, *own],
            "sizes": {**dict.fromkeys(names, 0), **least},
            "arrays": list(dict.fromkeys((*inputs, *outputs))),
            "body": macros["body"](macros, calls, printer.pointers, size(printer.plan.size)),
            "kernels": macros["kernels"](macros, printer.new_literals, printer.new),
        }

    def _passed(
        self, printer: FunctionPrinter, buffers: Sequence[Buffer], ports: Sequence[Port]
    ) -> list[TypedArray]:
        """Name every argument or result: members of tables and of gradients, and separate arrays."""
        passed = []
        for buffer, port in zip(buffers, ports, strict=True):
            if is_member(port):
                name = printer.names[buffer] = self.macros["member"](port.role, port.name)
            else:
                name = printer.fresh(buffer, port.name)
            passed.append(TypedArray(name, buffer.type, printer.expressions.size(buffer.type.size)))
        return passed


def is_member(port: Port) -> bool:
    """Tell whether an array is passed as a member of an object."""
    return port.role.is_table or port.role is Role.GRADIENT


def containers(function: Function) -> list[Role]:
    """List the tables, and the gradients, that a function takes or changes, in order."""
    return list(dict.fromkeys(p.role for p in (*function.inputs, *function.outputs) if is_member(p)))


def template_context(backend: Backend, program: Program) -> dict[str, Any]:
    """Return the variables that the templates read."""
    library = Library(backend, program)
    functions = [library.function(f) for f in program.functions]
    return {"functions": functions, "helpers": frozenset(library.helpers)}
