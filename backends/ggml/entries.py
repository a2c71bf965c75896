"""Functions of a program as graphs, with their arguments in C."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from catgrad.backend import Backend
from catgrad.naming import Namer
from catgrad.programs.ports import Port, Role
from catgrad.programs.program import Function, Program
from catgrad.types import symbols

from ..c import entries
from ..c.interface import CArgument, Signature
from ..python.tables import columns
from .graphs import Planner, Step
from .host import HostFunctions
from .lists import Column, layered, runs_of
from .options import WEIGHTS
from .select import selected
from .weights import laid_out


@dataclass(frozen=True)
class Argument(CArgument):
    """An array that a function takes or returns, or a member of the gradients, and its tensor.

    With `rows`, they are those of as many equal layers.
    """

    tensor: str
    rows: int


@dataclass(frozen=True)
class GgmlFunction(Signature):
    """A function as data for templates."""

    class_name: str
    planner: Planner
    steps: tuple[Step, ...]


class Printer(entries.Printer):
    """The functions of one program as graphs."""

    def __init__(self, backend: Backend, program: Program) -> None:
        super().__init__(backend, program)
        self.hosts, self.kernels = HostFunctions(program.name), backend.options.kernels
        self.runs = runs_of(self.tables)
        self.classes = Namer([*self.dialect.reserved])

    def function(self, function: Function) -> GgmlFunction:
        """Plan the graphs of a function."""
        sizes = tuple(symbols(function.argument_types))
        reserved = (*self.dialect.reserved, *sizes)
        planner, names = Planner(self.dialect, Namer(reserved), sizes), Namer(reserved)

        def passed(port: Port, tensor: str) -> Argument:
            is_member = port.role is Role.GRADIENT
            name = self._member(port) if is_member else names.fresh(port.label or tensor)
            return Argument.of(name, port, planner.size, tensor=tensor, rows=port.rows)

        taken, returned = self._ports(function.inputs), self._ports(function.outputs)
        given = [
            self._place(p) if p.role.is_table else planner.slot(p.label or "x", p.type, p.rows) for p in taken
        ]
        targets = {k: self._place(p) for k, p in enumerate(returned) if p.role.is_table}
        lists = selected(layered(function, self.runs), self.hosts, self.kernels)
        steps, made = planner.steps(lists, given, targets)
        inputs = [passed(p, x) for p, x in zip(taken, given, strict=True) if not p.role.is_table]
        ports = (port for port in returned if not port.role.is_table)
        outputs = [passed(port, tensor) for port, tensor in zip(ports, made, strict=True)]
        name = self.classes.fresh("".join(part.capitalize() for part in function.name.split("_")))
        return GgmlFunction.of(
            function, inputs, outputs, planner.size, class_name=name, planner=planner, steps=steps
        )

    def _ports(self, ports: Sequence[Port]) -> list[Port]:
        """List the ports with those of equal layers as one, by the name of the first."""
        return [replace(port, name=ports[rows[0]].name) for rows, port in columns(ports, self.runs)]

    def _member(self, port: Port) -> str:
        """Name an array of a table, or that of each layer."""
        _, identifier, layers, name = self.arrays[port.name]
        return Column(layers.identifier, name) if port.rows and layers else identifier

    def _place(self, port: Port) -> str:
        """Name the tensor of an array of a table, or that of each layer."""
        member, found = self.dialect.macros["member"], self._member(port)
        if isinstance(found, Column):
            return Column(member(port.role, found.layers), found.member)
        return member(port.role, found)


def template_context(backend: Backend, program: Program) -> Mapping[str, Any]:
    """Return the variables that the templates read."""
    kind = WEIGHTS[backend.options.weights]
    stored, weights, quantised = laid_out(program, bool(kind))
    roles = {role for function in program.functions for role in (*function.tables, *function.changes)}
    used = {role: slots for role, slots in program.tables.items() if role in roles}
    printer = Printer(backend, replace(stored, tables=used))
    return {
        **printer.context(),
        "kernels": backend.options.kernels,
        "weights": weights,
        "quantised": quantised,
        "weights_type": kind,
        "ignored": [s.name for role, slots in program.tables.items() if role not in used for s in slots],
        "hosts": printer.hosts,
    }
