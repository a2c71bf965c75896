"""Initial values of tables, computed by the emitted library."""

from __future__ import annotations

from ctypes import c_int64, c_size_t, c_void_p
from typing import Any

from catgrad.dims import numbers
from catgrad.programs.ports import TABLES, Role
from catgrad.programs.program import Function, Program
from catgrad.types import Array

from ..host.checks import Expected
from .library import Library


class Initial:
    """A function from a seed to the initial values of a table."""

    def __init__(self, library: Library, program: Program, function: Function) -> None:
        self.library, self.program, self.function = library, program, function
        self.__name__, self.__doc__ = function.name, function.doc
        self.expected = Expected(function.name, ("seed",), function.argument_types)

    def __call__(self, seed: Any = 0) -> list[Array]:
        """Compute the initial values, determined by the seed."""
        [checked] = self.expected.checked([seed])
        first = initialise(self.library, self.program, int(checked))
        return [self.library.on_host(array) for table in self.function.changes for array in first[table]]


def initialise(library: Library, program: Program, seed: int) -> dict[Role, list[Any]]:
    """Compute the initial values of every table that is not empty."""
    tables = {
        table: [
            library.empty(numbers(slot.type.shape), slot.type.dtype.numpy) for slot in program.tables[table]
        ]
        for table in TABLES
        if program.tables.get(table)
    }
    if tables:
        call = library.function("init", [c_int64, *[c_void_p] * len(tables), *library.trailing])
        bytes = library.function("init_workspace_bytes", [], c_size_t)()
        library.run(call, "init", [seed, *map(library.table, tables.values())], bytes)
    return tables
