"""Functions of a program as graphs, with their arguments in C."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from catgrad.backend import Backend
from catgrad.naming import Namer
from catgrad.programs.ports import Port, Role
from catgrad.programs.program import Function, Program
from catgrad.types import symbols

from ..c.layouts import layouts
from ..kernels.functions import Functions
from ..kernels.signatures import ArrayArgument, Signature
from ..kernels.structs import TableStructs
from ..python.tables import columns
from .files import tensors
from .graphs import Planner, Step
from .host import HostFunctions
from .lists import Column, layered, runs_of
from .options import WEIGHTS
from .select import selected
from .weights import laid_out


@dataclass(frozen=True)
class Argument(ArrayArgument):
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


class GraphFunctions(Functions[GgmlFunction]):
    """The functions of one program as graphs."""

    def __init__(self, backend: Backend, program: Program) -> None:
        super().__init__(backend, program)
        self.hosts, self.kernels = HostFunctions(program.name), backend.options.kernels
        self.structs = TableStructs(program, self.dialect)
        self.runs = runs_of(self.structs.tables)
        self.classes = Namer([*self.dialect.reserved])

    def function(self, function: Function) -> GgmlFunction:
        """Plan the graphs of a function."""
        sizes = tuple(symbols(function.argument_types))
        reserved = (*self.dialect.reserved, *sizes)
        planner, names = Planner(self.dialect, Namer(reserved), sizes), Namer(reserved)

        def passed(first: str, port: Port, tensor: str) -> Argument:
            is_member = port.role is Role.GRADIENT
            name = self._member(first, port) if is_member else names.fresh(port.label or tensor)
            return Argument.of(name, port, planner.size, tensor=tensor, rows=port.rows)

        taken, returned = self._ports(function.inputs), self._ports(function.outputs)
        given = [
            self._place(first, p) if p.role.is_table else planner.slot(p.label or "x", p.type, p.rows)
            for first, p in taken
        ]
        targets = {k: self._place(*pair) for k, pair in enumerate(returned) if pair[1].role.is_table}
        lists = selected(layered(function, self.runs), self.hosts, self.kernels)
        steps, made = planner.steps(lists, given, targets)
        inputs = [passed(*pair, x) for pair, x in zip(taken, given, strict=True) if not pair[1].role.is_table]
        others = (pair for pair in returned if not pair[1].role.is_table)
        outputs = [passed(*pair, tensor) for pair, tensor in zip(others, made, strict=True)]
        name = self.classes.fresh("".join(part.capitalize() for part in function.name.split("_")))
        return GgmlFunction.of(
            function, inputs, outputs, planner.size, class_name=name, planner=planner, steps=steps
        )

    def context(self) -> dict[str, object]:
        """Describe all functions and tables; returns the variables that templates read."""
        return {**super().context(), "tables": self.structs.tables, "placed": layouts(self.structs.tables)}

    def _ports(self, ports: Sequence[Port]) -> list[tuple[str, Port]]:
        """List the ports with those of equal layers as one, and the name of each or of its first array."""
        return [(ports[rows[0]].name, port) for rows, port in columns(ports, self.runs)]

    def _member(self, first: str, port: Port) -> str:
        """Name an array of a table, or that of each layer."""
        _, identifier, layers, name = self.structs.members[first]
        return Column(layers.identifier, name) if port.rows and layers else identifier

    def _place(self, first: str, port: Port) -> str:
        """Name the tensor of an array of a table, or that of each layer."""
        found, member = self._member(first, port), self.dialect.macros["member"]
        if isinstance(found, Column):
            return Column(member(port.role, found.layers), found.member)
        return str(member(port.role, found))


def template_context(backend: Backend, program: Program) -> Mapping[str, object]:
    """Return the variables that the templates read."""
    kind = WEIGHTS[backend.options.weights]
    stored, weights, quantised = laid_out(program, bool(kind))
    roles = {role for function in program.functions for role in (*function.tables, *function.changes)}
    used = {role: slots for role, slots in program.tables.items() if role in roles}
    printer = GraphFunctions(backend, replace(stored, tables=used))
    context, placed = printer.context(), layouts(printer.structs.tables)
    transposed = {name for name, is_transposed in weights.items() if is_transposed}
    return {
        **context,
        "tensors": {t: [*tensors(layout, quantised, transposed)] for t, layout in placed.items()},
        "kernels": backend.options.kernels,
        "weights": weights,
        "quantised": quantised,
        "weights_type": kind,
        "ignored": [s.name for role, slots in program.tables.items() if role not in used for s in slots],
        "hosts": printer.hosts,
    }
