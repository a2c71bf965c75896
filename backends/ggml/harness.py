"""Adapter of an emitted library: functions on arrays, and tables that lie on the device of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from ctypes import POINTER, byref, c_char_p, c_int, c_int64, c_void_p
from pathlib import Path
from typing import Any

import numpy as np

from catgrad.dims import numbers
from catgrad.programs.ports import TABLES, Role
from catgrad.programs.program import Program
from catgrad.types import Array

from ..c.harness import BoundFunction, LibraryFunction
from ..c.library import SharedLibrary, address, struct
from ..c.plans import Plan
from ..host.tables import Table


class ModelLibrary(SharedLibrary):
    """A shared library, and what its models are created with: its functions take a model, not tables."""

    trailing, remedy = (), "report this if ggml is in order"

    def __init__(self, path: Path, prefix: str, program: Program, device: str, threads: int) -> None:
        super().__init__(path, prefix)
        self.program, self.device, self.threads = program, device, threads
        self._message = self.function("message", [c_void_p], c_char_p)

    def entry_point(self, name: str, tables: int, sizes: int, arrays: int) -> Any:
        """Look up a function of a model, sizes and arrays."""
        return super().entry_point(name, 1, sizes, arrays)

    def tables(self, program: Program, seed: int) -> Mapping[Role, Table]:
        """Create the tables of a new model, with their initial values."""
        model = Model(self)
        if any(map(program.tables.get, TABLES)):
            model.call("init", [c_int64], seed)
        return {role: ModelTable(role, model) for role in TABLES}

    def meaning(self, code: int) -> str:
        """Return the text of a status code, and the details of the last error."""
        return f"{super().meaning(code)}: {self._message(None).decode(errors='replace')}"


class Model:
    """A model of the library, with its tables."""

    def __init__(self, library: ModelLibrary) -> None:
        self.library, self.handle = library, c_void_p()
        self._as_parameter_ = self.handle
        create = library.function("create", [POINTER(c_void_p), c_char_p, c_int])
        library.run(create, "create", [byref(self.handle), library.device.encode(), library.threads], 0)

    def __del__(self) -> None:
        if self.handle:
            self.library.function("destroy", [c_void_p], None)(self.handle)

    def call(self, name: str, takes: Sequence[object], *arguments: object) -> None:
        """Call a function on the model. Raises: IndexError, ToolError"""
        call = self.library.function(name, [c_void_p, *takes])
        self.library.run(call, name, [self, *arguments], 0)

    def copy(self, verb: str, role: Role, arrays: Iterable[Array | None]) -> None:
        """Read or write the arrays of a table; None leaves one out."""
        places = struct(0 if array is None else address(array) for array in arrays)
        self.call(f"{verb}_{role}", [c_void_p], places)


class ModelTable(Table):
    """A table of a model; an array that is read is a copy, whose elements cannot be assigned."""

    def __init__(self, role: Role, model: Model) -> None:
        super().__init__(role, model.library.program.tables.get(role, ()))
        self.role, self.model = role, model

    def _get(self, name: str) -> Array:
        array = np.empty(numbers(self._types[name].shape), self._types[name].dtype.numpy)
        self.model.copy("read", self.role, (array if name == other else None for other in self))
        array.flags.writeable = False
        return array

    def _put(self, name: str, array: Array) -> None:
        self.model.copy("write", self.role, (array if name == other else None for other in self))


class ModelFunction(LibraryFunction):
    """A function of the library on arrays, of which a new model gets those of tables; or on a model."""

    library: ModelLibrary

    def invoke(self, tables: Mapping[Role, Sequence[Any]], plan: Plan, rest: Sequence[object]) -> None:
        """Call the function on a model with these tables, and copy back those that it changes."""
        model = Model(self.library)
        for role, _ in self.convention.tables:
            model.copy("write", role, tables[role])
        self.library.run(self.call, self.__name__, [model, *plan.sizes, *rest], 0)
        for role in self.function.changes:
            model.copy("read", role, tables[role])

    def bound(self, tables: Mapping[Role, Any]) -> Callable[..., list[Any]]:
        """Apply the function to tables of a model, which it changes where they are."""
        return BoundFunction(self, [tables[Role.PARAMETER].model])
