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
from catgrad.programs.program import GRADIENTS, Function, Program
from catgrad.types import Array, NdArrayType, substitute, symbols

from .checks import Wanted
from .compiler import shared_library
from .interface import ORDER, entry, is_initial, own_results
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
    entries = {f.name: Entry(library, program, f) for f in program.functions if not is_initial(f)}
    initial = {f.name: Initial(library, program, f) for f in program.functions if is_initial(f)}
    attributes: dict[str, Any] = {"program": program, "library": library, **initial, **entries}
    if "train_step" in entries:
        attributes["step"] = Step(library, program, program["train_step"])
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
        self.entry = entry(function, program)
        self.__name__, self.__doc__ = function.name, function.doc
        names = tuple(function.names[v] for v in function.arguments)
        self.wanted = Wanted(function.name, names, function.argument_types, function.requirements)
        self.results = [function.types[v] for v in own_results(function, program)]
        self.symbols = tuple(symbols(function.argument_types))
        self.plans = Plans(self.wanted, self.plan)
        pointers = len(self.entry.tables) + bool(self.entry.gradients) + len(self.own_types)
        self.takes_sizes = [c_ssize_t] * len(self.symbols)
        tables = [c_void_p] * len(self.entry.tables)
        rest = [c_void_p] * (pointers - len(tables) + len(self.results) + 1)
        self.call = library.function(self.entry.name, [*tables, *self.takes_sizes, *rest])
        self._workspace = library.function(f"{self.entry.name}_workspace_bytes", self.takes_sizes, c_size_t)

    @property
    def own_types(self) -> tuple[NdArrayType, ...]:
        """The types of the arguments that are no part of a table or of gradients."""
        start = self.program.common_arguments(self.function)
        return () if self.entry.gradients == "read" else self.function.argument_types[start:]

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
        plan, given = self.plans.of(values)
        tables: dict[str, list[Array]] = {}
        for table in (t for t in ORDER if t in self.function.takes):
            slots = self.program.tables[table]
            held, given = given[: len(slots)], given[len(slots) :]
            tables[table] = [a.copy() for a in held] if table in self.function.gives else held
        structs = [table_of(tables[table]) for table, _ in self.entry.tables]
        gradients = self.new_gradients() if self.entry.gradients == "written" else []
        outputs = self.outputs(plan)
        own = [table_of(given)] if self.entry.gradients == "read" else list(map(address, given))
        own += [table_of(gradients)] if gradients else []
        workspace = self.library.workspace.at_least(plan.workspace)
        code = self.call(*structs, *plan.sizes, *own, *map(address, outputs), workspace)
        if code:
            raise self.library.refuse(code, self.__name__)
        return self.ordered(tables, gradients, outputs)

    def new_gradients(self) -> list[Array]:
        """An array for the gradient of each parameter."""
        types = (slot.type for slot in self.program.tables["parameters"])
        return [np.empty(numbers(type.shape), type.dtype.numpy) for type in types]

    def ordered(
        self, tables: dict[str, list[Array]], gradients: list[Array], outputs: list[Array]
    ) -> list[Array]:
        """The results as the program orders them."""
        if not self.function.gives:
            return outputs
        own, results = iter(outputs), []
        for given in self.function.gives:
            if given == GRADIENTS:
                results += gradients
            else:
                results += tables[given] if given in tables else [next(own)]
        return results


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
        self.library, self.program, self.table = library, program, function.gives[0]
        self.__name__, self.__doc__ = function.name, function.doc
        self.wanted = Wanted(function.name, ("seed",), function.argument_types)

    def __call__(self, seed: Any = 0) -> list[Array]:
        """The first values, decided by the seed."""
        [checked] = self.wanted.checked([seed])
        return initialise(self.library, self.program, int(checked)).get(self.table, [])


def initialise(library: Library, program: Program, seed: int) -> dict[str, list[Array]]:
    """The first values of every table."""
    tables = {
        table: [np.empty(numbers(slot.type.shape), slot.type.dtype.numpy) for slot in program.tables[table]]
        for table in ORDER
        if program.tables.get(table)
    }
    if tables:
        call = library.function("init", [c_int64, *[c_void_p] * len(tables), c_void_p])
        bytes = library.function("init_workspace_bytes", [], c_size_t)()
        code = call(seed, *map(table_of, tables.values()), library.workspace.at_least(bytes))
        if code:
            raise library.refuse(code, "init")
    return tables
