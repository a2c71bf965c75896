"""C functions of a program: calls of kernels, which equal ones share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from catgrad.backend import Backend
from catgrad.loops.ir.scalar import Buffer
from catgrad.loops.printing.calls import CallLine, LayerParameter, Pointer
from catgrad.loops.printing.functions import FunctionPrinter, KernelLibrary
from catgrad.naming import Namer
from catgrad.printing.dialect import Dialect, Text
from catgrad.programs.ports import TABLES, Port, Role
from catgrad.programs.program import Function, Program
from catgrad.programs.stacks import layers_of

from .equations import equations
from .halves import stored
from .interface import CArgument, LayerStruct, Member, Signature, layouts, prefix
from .layers import functions_of, outlined
from .machine import MACHINE, PACKING, companion
from .workspace import Workspace, workspace


@dataclass(frozen=True)
class CFunction(Signature):
    """A function as data for templates.

    Its `workspace` is how many bytes of `memory` it takes, which for some sizes may be none, and `limit` are
    lines that compute the `most` that any size, index or number of bytes comes to. The body reads all
    arguments but the `unread`, and calls the functions of `layers`; `equations` say what it computes.
    """

    equations: tuple[str, ...]
    body: str
    memory: Workspace
    workspace: str
    needs_workspace: bool
    may_be_empty: bool
    limit: str
    kernels: str
    layers: str
    unread: tuple[str, ...]


@dataclass(frozen=True)
class Arena:
    """The temporary arrays of functions with equal ones, as the members of a struct, and where they lie.

    Offsets are computed from `sizes`. There are so many `bytes`, of which `least` are alive at the peak.
    """

    functions: tuple[str, ...]
    members: tuple[Pointer, ...]
    sizes: tuple[str, ...]
    bytes: Text
    least: Text

    @property
    def name(self) -> str:
        """Name of the first function, after which the struct is called."""
        return self.functions[0]


class Printer(ABC):
    """The functions of one program, and its tables as structs with members."""

    def __init__(self, backend: Backend, program: Program) -> None:
        self.program, self.dialect = program, backend.dialect
        self.tables = {
            table: members(program, table, self.dialect) for table in TABLES if program.tables.get(table)
        }
        self.arrays = {each.slot.name: each for table in self.tables.values() for each in table}
        self.members = {each.slot.name: each.identifier for table in self.tables.values() for each in table}

    @abstractmethod
    def function(self, function: Function) -> Signature:
        """Print a function."""

    def context(self) -> dict[str, Any]:
        """Print all functions, the initial ones last; returns the variables that templates read."""
        last = sorted(self.program.functions, key=lambda f: f.kind.is_initial)
        printed = {f.name: self.function(f) for f in last}
        functions = {f.name: printed[f.name] for f in self.program.functions}
        kinds = {kind: functions[f.name] for kind, f in self.program.kinds.items()}
        return {"functions": functions, "kinds": kinds, "tables": self.tables, "placed": layouts(self.tables)}


class Library(Printer):
    """The functions of one program as C functions."""

    machine, companion = MACHINE, staticmethod(companion)

    def __init__(self, backend: Backend, program: Program) -> None:
        super().__init__(backend, program)
        namer = Namer([*self.dialect.reserved, *(f.name for f in program.functions)])
        self.kernels = KernelLibrary(self.dialect, self.machine, namer, self.companion, stored, arena="a")
        self.helpers: set[str] = set()
        self.arenas: dict[Any, Arena] = {}
        self.layer_parameters: tuple[LayerParameter, ...] = ()
        """Further parameters of functions of layers, beside tables, arrays and sizes."""
        self.printers: dict[str, FunctionPrinter] = {}
        self.taken: dict[FunctionPrinter, dict[Buffer, tuple[Role, Member]]] = {}
        """The members of tables that the arguments and results of each function are."""
        self.macros: dict[str, Any] = {
            **self.dialect.macros,
            "helper": self.helper,
            "prefix": prefix(program),
            "bad_index": f"{prefix(program).upper()}_BAD_INDEX",
        }

    def helper(self, name: str) -> str:
        """Record that a line needs a function or number of the runtime; returns its name."""
        self.helpers.add(name)
        return name

    def function(self, function: Function) -> CFunction:
        """Print a function, with the kernels that no function before it has."""
        printer, macros = self.printers[function.name], self.macros
        inputs = self._passed(printer, printer.lowered.arguments, function.inputs)
        outputs = self._passed(printer, printer.lowered.results, function.outputs)
        places, fresh = self.taken.get(printer, {}), self.kernels.namer.fresh
        calls = outlined(self.calls(printer), printer, places, self.layer_parameters, fresh)
        texts, size = printer.texts, printer.expressions.size
        self.helpers.update(*(text.helpers for text in texts))
        memory = workspace(printer.lowered, printer.plan, texts, printer.expressions.reach, size)
        arena = self.arena(function.name, printer, memory)
        body = macros["body"](macros, calls, printer.arena, arena, memory)
        unread = [x.identifier for x in inputs if x.identifier not in printer.mentioned]
        unread += [] if arena or memory.has_scratch else ["workspace"]
        return CFunction.of(
            function,
            inputs,
            outputs,
            size,
            equations=tuple(equations(function, inputs, outputs)),
            body=body,
            memory=memory,
            workspace=macros["workspace"](macros, memory),
            needs_workspace=memory.is_needed,
            may_be_empty=memory.may_be_empty,
            limit=macros["limit"](macros, memory),
            kernels=macros["kernels"](macros, printer.new_literals, printer.new),
            layers=macros["layers"](macros, functions_of(calls), arena),
            unread=tuple(unread),
        )

    def context(self) -> dict[str, Any]:
        """Print all functions; returns the variables that templates read."""
        self.printers = self.compiled()
        context = super().context()
        # Both dtypes have the same tiles, so it is enough to time one.
        dtypes = sorted(helper[-3:] for helper in self.helpers if helper.startswith("gemm_"))
        timed = frozenset(f"gemm_{dtype}" for dtype in dtypes[:1])
        own = {"arenas": tuple(self.arenas.values()), "packing": PACKING, "timed_product": timed}
        return {**context, **own, "helpers": frozenset(self.helpers)}

    def compiled(self) -> dict[str, FunctionPrinter]:
        """Compile all functions, before kernels are printed, whose names fit all of them."""
        return {f.name: FunctionPrinter(self.kernels, f) for f in self.program.functions}

    def calls(self, printer: FunctionPrinter) -> tuple[CallLine, ...]:
        """The calls of kernels that a function consists of."""
        return printer.calls()

    def arena(self, name: str, printer: FunctionPrinter, memory: Workspace) -> Arena | None:
        """Return the arena of a function's temporary arrays, if any; functions with equal ones share it."""
        if not printer.pointers:
            return None
        key = members, _, _ = tuple(printer.pointers), memory.arrays, memory.least
        sizes = sorted({size for member in members for size in member.sizes})
        others = self.arenas[key].functions if key in self.arenas else ()
        self.arenas[key] = Arena((*others, name), members, tuple(sizes), memory.arrays, memory.least)
        return self.arenas[key]

    def _passed(
        self, printer: FunctionPrinter, buffers: Sequence[Buffer], ports: Sequence[Port]
    ) -> tuple[CArgument, ...]:
        """Name every argument or result; returns those that are not members of tables."""
        own, places = [], self.taken.setdefault(printer, {})
        printer.row_of = lambda arrays, number: self._row([places.get(each) for each in arrays], number)
        for buffer, port in zip(buffers, ports, strict=True):
            if port.role.is_table or port.role is Role.GRADIENT:
                member = self.members[port.name]
                places[buffer] = port.role, self.arrays[port.name]
                printer.names[buffer] = self.dialect.macros["member"](port.role, member)
            else:
                name = port.name or buffer.name
                identifier = printer.fresh(buffer, name)
                named = replace(port, name=name, type=buffer.type)
                own.append(CArgument.of(identifier, named, printer.expressions.size))
        return tuple(own)

    def _row(self, arrays: Sequence[tuple[Role, Member] | None], number: str) -> str | None:
        """Name the member of a layer by its number, if these are that of all layers in order."""
        if arrays[0] is None:
            return None
        role, (_, _, layers, name) = arrays[0]
        macros = self.dialect.macros
        if layers is None or len(arrays) != layers.count:
            return None
        every = [macros["layer_member"](layers.identifier, t, name) for t in range(layers.count)]
        if [found and (found[0], found[1].identifier) for found in arrays] != [
            (role, each) for each in every
        ]:
            return None
        return str(macros["member"](role, macros["layer_member"](layers.identifier, number, name)))


def members(program: Program, table: Role, dialect: Dialect) -> list[Member]:
    """List the slots of a table with their members in its struct; equal layers are an array of structs."""
    namer, found = Namer(dialect.reserved), dict[str, Member]()
    slots = {slot.name: slot for slot in program.tables.get(table, ())}
    for layers in layers_of(program, table):
        reserved = Namer(dialect.reserved).fresh(layers.name) != layers.name
        name = namer.fresh(f"{layers.name}_layers" if reserved else layers.name)
        struct, own = LayerStruct(name, layers.count), Namer(dialect.reserved)
        for member, arrays in zip(map(own.fresh, layers.members), layers.arrays, strict=True):
            for t, name in enumerate(arrays):
                place = dialect.macros["layer_member"](struct.identifier, t, member)
                found[name] = Member(slots[name], place, struct, member)
    return [found.get(name) or Member(slot, namer.fresh(name)) for name, slot in slots.items()]
