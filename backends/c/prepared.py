"""Predictions with packed weights, for parameters that do not change any more."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from ctypes import c_size_t, c_void_p
from typing import Any

from catgrad.errors import not_emitted
from catgrad.programs.ports import Role
from catgrad.programs.program import Function, Program

from ..host.learner import LibraryLearner, single
from ..host.tables import Table
from .harness import BoundFunction, LibraryFunction
from .library import SharedLibrary, aligned_bytes, struct
from .prepare import PREDICT_PREPARED, prepared_name


class PreparedFunction(LibraryFunction):
    """A prediction that takes a struct of packed weights after its tables, if there are any.

    These are copies of the arrays with such `names`, one for each.
    """

    def __init__(
        self, library: SharedLibrary, program: Program, function: Function, names: Sequence[str]
    ) -> None:
        super().__init__(library, program, function)
        self.members = len(names)
        self.packed_tables = [
            table
            for table, _ in self.convention.tables
            if any(slot.name in names for slot in program.tables[table])
        ]
        if not names:
            return
        self.__name__ = prepared_name(function.name)
        tables, numbers = len(self.convention.tables), len(self.numbers)
        rest = len(self.call.argtypes) - tables - numbers - len(library.trailing)
        self.call = library.entry_point(self.__name__, tables + 1, numbers, rest)
        self._workspace = library.workspace_bytes(self.__name__, len(self.symbols))

    def bound(self, tables: Mapping[Role, Table]) -> BoundFunction:
        """Apply the function to copies of tables, and to their weights packed."""
        arrays = {role: [array.copy() for array in table.values()] for role, table in tables.items()}
        return BoundFunction(self, self.structs(arrays), kept=arrays)

    def structs(self, tables: Mapping[Role, Sequence[Any]]) -> list[Any]:
        """Return a struct of each table, and that of their weights, packed."""
        structs = super().structs(tables)
        if not self.members:
            return structs
        library, packed = self.library, struct([0] * self.members)
        packed.memory = memory = aligned_bytes(library.function("prepared_bytes", [], c_size_t)())
        library.function("prepared_place", [c_void_p] * 2, None)(packed, library.address(memory))
        read = [library.table(tables[role]) for role in self.packed_tables]
        code = library.function("prepare", [c_void_p] * (len(read) + 1))(*read, packed)
        if code:
            raise library.refuse(code, "prepare")
        return [*structs, packed]


class PreparingLearner(LibraryLearner):
    """A learner whose predictions can be prepared."""

    def prepared(self) -> Callable[..., Any]:
        """Return `predict` for the tables as they are now, which has the weights of products packed.

        Raises: NotEmitted if `predict_prepared` was not
        """
        if PREDICT_PREPARED not in self.model.program.variants:
            raise not_emitted(PREDICT_PREPARED, self._emitted)
        function = self.model.predict_prepared.bound(self._tables)
        return lambda *inputs: single(function(*inputs))
