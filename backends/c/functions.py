"""C functions of a program: calls of kernels, which equal ones share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from catgrad.backend import Backend
from catgrad.loops.ir.scalar import Buffer
from catgrad.loops.printing.calls import LayerParameter, Pointer
from catgrad.loops.printing.functions import FunctionPrinter, KernelLibrary
from catgrad.naming import Namer
from catgrad.printing.dialect import Text
from catgrad.programs.ports import Port, Role
from catgrad.programs.program import Function, Program
from catgrad.types import Dtype

from ..kernels.functions import KernelFunctions
from ..kernels.signatures import ArrayArgument, Signature
from ..kernels.structs import Member, TableStructs
from .equations import equations
from .halves import stored
from .interface import prefix
from .layers import functions_of, outlined
from .layouts import layouts
from .machine import MACHINE, PACKING, companion
from .workspace import Workspace, workspace_of


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


class CFunctions(KernelFunctions[CFunction]):
    """The functions of one program as C functions, and its tables as structs."""

    signature: type[CFunction] = CFunction
    machine, companion = MACHINE, staticmethod(companion)

    def __init__(self, backend: Backend, program: Program) -> None:
        namer = Namer([*backend.dialect.reserved, *(f.name for f in program.functions)])
        kernels = KernelLibrary(backend.dialect, self.machine, namer, self.companion, stored, arena="a")
        super().__init__(backend, program, kernels)
        self.structs = TableStructs(program, self.dialect)
        self.arenas: dict[object, Arena] = {}
        self.layer_parameters: tuple[LayerParameter, ...] = ()
        """Further parameters of functions of layers, beside tables, arrays and sizes."""
        self.taken: dict[FunctionPrinter, dict[Buffer, tuple[Role, Member]]] = {}
        """The members of tables that the arguments and results of each function are."""
        self.macros |= {"prefix": prefix(program), "bad_index": f"{prefix(program).upper()}_BAD_INDEX"}

    def context(self) -> dict[str, Any]:
        """Print all functions; returns the variables that templates read."""
        context, tables = super().context(), self.structs.tables
        # Both dtypes have the same tiles, so it is enough to time one.
        floats = (dtype.value for dtype in Dtype if dtype.is_floating)
        dtypes = sorted(
            d for d in floats if any(h.startswith("gemm_") and h.endswith(f"_{d}") for h in self.helpers)
        )
        return {
            **context,
            "tables": tables,
            "placed": layouts(tables),
            "arenas": tuple(self.arenas.values()),
            "packing": PACKING,
            "timed_product": frozenset(f"gemm_{dtype}" for dtype in dtypes[:1]),
        }

    def fields(
        self, function: Function, inputs: Sequence[ArrayArgument], outputs: Sequence[ArrayArgument]
    ) -> dict[str, Any]:
        """Print a function; returns the fields of CFunction that a signature lacks."""
        printer, macros = self.printers[function.name], self.macros
        places, fresh = self.taken[printer], self.kernels.namer.fresh
        calls = outlined(self.calls(printer), printer, places, self.layer_parameters, fresh)
        memory = workspace_of(printer)
        arena = self.arena(function.name, printer, memory)
        unread = [x.identifier for x in inputs if x.identifier not in printer.mentioned]
        unread += [] if arena or memory.has_scratch else ["workspace"]
        return {
            "equations": tuple(equations(function, inputs, outputs)),
            "body": macros["body"](macros, calls, printer.arena, arena, memory),
            "memory": memory,
            "workspace": macros["workspace"](macros, memory),
            "needs_workspace": memory.is_needed,
            "may_be_empty": memory.may_be_empty,
            "limit": macros["limit"](macros, memory),
            "kernels": macros["kernels"](macros, printer.new_literals, printer.new),
            "layers": macros["layers"](macros, functions_of(calls), arena),
            "unread": tuple(unread),
        }

    def passed(
        self, printer: FunctionPrinter, function: Function
    ) -> tuple[list[ArrayArgument], list[ArrayArgument]]:
        """Name all arguments and results, and rows of layers by their numbers; returns as the base does."""
        places = self.taken[printer] = {}
        printer.row_of = lambda arrays, number: self._row([places.get(each) for each in arrays], number)
        return super().passed(printer, function)

    def member(self, printer: FunctionPrinter, buffer: Buffer, port: Port) -> str:
        """Return the text of an array of a table, and remember where it is."""
        member = self.structs.members[port.name]
        self.taken[printer][buffer] = port.role, member
        return str(self.dialect.macros["member"](port.role, member.identifier))

    def arena(self, name: str, printer: FunctionPrinter, memory: Workspace) -> Arena | None:
        """Return the arena of a function's temporary arrays, if any; functions with equal ones share it."""
        if not printer.pointers:
            return None
        key = members, _, _ = tuple(printer.pointers), memory.arrays, memory.least
        sizes = sorted({size for member in members for size in member.sizes})
        others = self.arenas[key].functions if key in self.arenas else ()
        self.arenas[key] = Arena((*others, name), members, tuple(sizes), memory.arrays, memory.least)
        return self.arenas[key]

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
