"""An emitted library behind functions on arrays, with the checks and errors of the other targets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from ctypes import c_int64, c_size_t, c_ssize_t, c_void_p
from typing import Any, ClassVar

import numpy as np

from catgrad.backend import Artifact
from catgrad.dims import numbers
from catgrad.errors import ShapeError
from catgrad.programs.ports import TABLES, Kind, Role
from catgrad.programs.program import Function, Program
from catgrad.types import Array, substitute, symbols

from .checks import Wanted
from .compiler import shared_library
from .interface import entry, own
from .library import Library, address, table_of
from .plans import Plan, Plans

TOO_LARGE = c_size_t(-1).value
"""The bytes of workspace where sizes are such that bytes cannot be counted."""


def load(artifact: Artifact) -> Any:
    """The class `CompiledModel` of an emitted library. Raises: ToolError if it cannot be compiled."""
    from .learner import Learner

    program, told = artifact.program, json.loads(artifact.files["manifest.json"])
    [source] = [name for name in artifact.files if name == f"{program.name}.c"]
    needed = {name: artifact.files[name] for name in (source, f"{program.name}.h")}
    flags = ["-fopenmp"] if told["openmp"] else []
    library = Library(shared_library(told["prefix"], needed, source, flags), told["prefix"])
    attributes: dict[str, Any] = {"program": program, "library": library}
    for function in program.functions:
        kind = Initial if function.kind.is_initial else Entry
        attributes[function.name] = kind(library, program, function)
    if Kind.TRAIN_STEP in program.kinds:
        attributes["step"] = Step(library, program, program.kinds[Kind.TRAIN_STEP])
        attributes["learner"] = lambda self, seed=0: Learner(type(self), seed)
    return type("CompiledModel", (Loaded,), attributes)


class Loaded:
    """A library, and the program it was printed from; its functions take and give lists of arrays."""

    program: ClassVar[Program]
    library: ClassVar[Library]


class Entry:
    """A function of the library on arrays: those of tables, then its own; it gives new ones."""

    def __init__(self, library: Library, program: Program, function: Function) -> None:
        self.library, self.program, self.function = library, program, function
        self.entry = entry(function)
        self.__name__, self.__doc__ = function.name, function.doc
        names = tuple(function.names[v] for v in function.arguments)
        self.wanted = Wanted(function.name, names, function.argument_types, function.requirements)
        self.own_types = tuple(port.type for port in own(function.inputs))
        self.results = [port.type for port in own(function.outputs)]
        self.symbols = tuple(symbols(function.argument_types))
        self.plans = Plans(self.wanted, self.plan)
        pointers = len(self.entry.tables) + bool(self.entry.gradients) + len(self.own_types)
        self.takes_sizes = [c_ssize_t] * len(self.symbols)
        tables = [c_void_p] * len(self.entry.tables)
        rest = [c_void_p] * (pointers - len(tables) + len(self.results) + 1)
        self.call = library.function(self.entry.name, [*tables, *self.takes_sizes, *rest])
        self._workspace = library.function(f"{self.entry.name}_workspace_bytes", self.takes_sizes, c_size_t)

    def plan(self, sizes: dict[str, int]) -> Plan:
        """What a call at these sizes needs."""
        in_order = tuple(sizes[symbol] for symbol in self.symbols)
        workspace = self._workspace(*in_order)
        if workspace == TOO_LARGE:
            raise _too_large(self.function.name, sizes)
        shapes = tuple(numbers(substitute(type.shape, sizes)) for type in self.results)
        return Plan(in_order, shapes, workspace)

    def outputs(self, plan: Plan) -> list[Array]:
        """New arrays for the results."""
        pairs = zip(plan.shapes, self.results, strict=True)
        return [np.empty(shape, type.dtype.numpy) for shape, type in pairs]

    def __call__(self, *values: Any) -> list[Array]:
        """The results, in the order in which the function gives them."""
        plan, inputs = self.plans.of(values)
        arrays: dict[Role, list[Array]] = {}
        own: list[Any] = []
        for port, array in zip(self.function.inputs, inputs, strict=True):
            if port.role.is_table or port.role is Role.GRADIENT:
                new = array.copy() if port.role in self.function.changes else array
                arrays.setdefault(port.role, []).append(new)
            else:
                own.append(address(array))
        if self.entry.gradients == "written":
            arrays[Role.GRADIENT] = self.new_gradients()
        structs = [table_of(arrays[table]) for table, _ in self.entry.tables]
        own += [table_of(arrays[Role.GRADIENT])] if self.entry.gradients else []
        outputs = self.outputs(plan)
        workspace = self.library.workspace.at_least(plan.workspace)
        code = self.call(*structs, *plan.sizes, *own, *map(address, outputs), workspace)
        if code:
            raise self.library.refuse(code, self.__name__)
        results = {role: iter(each) for role, each in arrays.items()}
        rest = iter(outputs)
        return [next(results.get(port.role, rest)) for port in self.function.outputs]

    def new_gradients(self) -> list[Array]:
        """An array for the gradient of each parameter."""
        types = (slot.type for slot in self.program.tables[Role.PARAMETER])
        return [np.empty(numbers(type.shape), type.dtype.numpy) for type in types]


def _too_large(name: str, sizes: Mapping[str, int]) -> ShapeError:
    return ShapeError(
        f"arrays must have at most {TOO_LARGE // 2} bytes",
        f"one would have more where {', '.join(f'{symbol} = {size}' for symbol, size in sizes.items())}",
        "pass smaller ones",
        subject=name,
    )


class Step(Entry):
    """A step of training that keeps its loss to itself."""

    def __call__(self, *values: Any) -> list[Array]:
        """The new values of the tables."""
        _, *new = super().__call__(*values)
        return new


class Initial:
    """A function from a seed to the first values of a table."""

    def __init__(self, library: Library, program: Program, function: Function) -> None:
        self.library, self.program, self.function = library, program, function
        self.__name__, self.__doc__ = function.name, function.doc
        self.wanted = Wanted(function.name, ("seed",), function.argument_types)

    def __call__(self, seed: Any = 0) -> list[Array]:
        """The first values, decided by the seed."""
        [checked] = self.wanted.checked([seed])
        first = initialise(self.library, self.program, int(checked))
        return [array for table in self.function.changes for array in first[table]]


def initialise(library: Library, program: Program, seed: int) -> dict[Role, list[Array]]:
    """The first values of every table that is not empty."""
    tables = {
        table: [np.empty(numbers(slot.type.shape), slot.type.dtype.numpy) for slot in program.tables[table]]
        for table in TABLES
        if program.tables.get(table)
    }
    if tables:
        call = library.function("init", [c_int64, *[c_void_p] * len(tables), c_void_p])
        bytes = library.function("init_workspace_bytes", [], c_size_t)()
        code = call(seed, *map(table_of, tables.values()), library.workspace.at_least(bytes))
        if code:
            raise library.refuse(code, "init")
    return tables
