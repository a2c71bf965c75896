"""Functions of a program as graphs, with their arguments in C."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from catgrad.backend import Backend
from catgrad.dims import product
from catgrad.naming import Namer
from catgrad.programs.ports import TABLES, Kind, Port, Role
from catgrad.programs.program import Function, Program
from catgrad.types import NdArrayType, symbols

from ..c.entries import members
from .graphs import Graph, Planner, Step
from .host import HostFunctions
from .options import WEIGHTS
from .select import selected
from .weights import laid_out


@dataclass(frozen=True)
class Argument:
    """An array that a function takes or returns: its name in C, or among the gradients, and its tensor."""

    identifier: str
    member: str
    tensor: str
    type: NdArrayType
    role: Role


@dataclass(frozen=True)
class GgmlFunction:
    """A function as data for templates."""

    name: str
    doc: str
    kind: Kind
    class_name: str
    sizes: tuple[str, ...]
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    changes: tuple[Role, ...]
    slots: tuple[tuple[str, NdArrayType], ...]
    kept: tuple[tuple[str, NdArrayType], ...]
    graphs: tuple[Graph, ...]
    steps: tuple[Step, ...]
    requirements: tuple[tuple[str, int], ...]
    texts: Mapping[NdArrayType, str]
    lengths: Mapping[str, str]


class Printer:
    """The functions of one program."""

    def __init__(self, backend: Backend, program: Program) -> None:
        self.dialect, self.hosts = backend.dialect, HostFunctions(program.name)
        self.kernels = backend.options.kernels
        used = {role for function in program.functions for role in (*function.tables, *function.changes)}
        self.tables = {
            role: members(program, role, self.dialect.reserved)
            for role in TABLES
            if role in used and program.tables.get(role)
        }
        self.places = {
            slot.name: f"m.{role}.{name}" for role, table in self.tables.items() for slot, name in table
        }
        self.classes = Namer([*self.dialect.reserved])

    def function(self, function: Function) -> GgmlFunction:
        """Plan the graphs of a function."""
        sizes = tuple(symbols(function.argument_types))
        planner = Planner(self.dialect, Namer([*self.dialect.reserved, *sizes]), sizes)
        arguments = [self._argument(planner, port) for port in function.inputs]
        targets = {k: self.places[p.name] for k, p in enumerate(function.outputs) if p.role.is_table}
        steps, own = planner.steps(
            selected(function, self.hosts, self.kernels), [a.tensor for a in arguments], targets
        )
        ports = [port for port in function.outputs if not port.role.is_table]
        names = Namer([*sizes, *(a.identifier for a in arguments), *self.dialect.reserved])
        outputs = [
            Argument(names.fresh(port.label or tensor), self.member(port), tensor, port.type, port.role)
            for port, tensor in zip(ports, own, strict=True)
        ]
        class_name = self.classes.fresh("".join(part.capitalize() for part in function.name.split("_")))
        return GgmlFunction(
            function.name, function.doc, function.kind, class_name, sizes,
            tuple(a for a in arguments if not a.role.is_table), tuple(outputs), function.changes,
            tuple(planner.slots), tuple(planner.kept), tuple(planner.graphs), steps,
            tuple((planner.size(r.size), r.least) for r in function.requirements),
            {type: planner.shape(type.shape) for _, type in planner.slots},
            {a.identifier: planner.size(product(a.type.shape)) for a in (*arguments, *outputs)},
        )  # fmt: skip

    def _argument(self, planner: Planner, port: Port) -> Argument:
        if port.role.is_table:
            return Argument("", "", self.places[port.name], port.type, port.role)
        tensor = planner.slot(port.label or "x", port.type)
        return Argument(tensor, self.member(port), tensor, port.type, port.role)

    def member(self, port: Port) -> str:
        """Return the identifier of a gradient in the struct of parameters, or of another array."""
        place = self.places.get(port.name, port.name) if port.role is Role.GRADIENT else port.name
        return place.rpartition(".")[2]


def template_context(backend: Backend, program: Program) -> Mapping[str, Any]:
    """Return the variables that the templates read."""
    kind = WEIGHTS[backend.options.weights]
    printer = Printer(backend, program)
    program, weights, quantised = laid_out(program, bool(kind))
    unused = [
        slot.name for role, slots in program.tables.items() if role not in printer.tables for slot in slots
    ]
    functions = {f.name: printer.function(f) for f in program.functions}
    return {
        "functions": functions,
        "kinds": {kind: functions[f.name] for kind, f in program.kinds.items()},
        "tables": printer.tables,
        "kernels": backend.options.kernels,
        "weights": weights,
        "quantised": quantised,
        "weights_type": kind,
        "unused": unused,
        "hosts": printer.hosts,
        "initials": [functions[f.name] for f in program.functions if f.kind.is_initial and f.changes],
    }
