"""Learner whose arrays an emitted library updates in place."""

from __future__ import annotations

from typing import Any

from catgrad.programs.ports import TABLES, Kind
from catgrad.types import Array

from ..host.learner import FunctionLearner
from ..host.tables import ArrayTable
from .bound import BoundFunction
from .harness import Entry
from .initial import initialise
from .library import table_of


class Learner(FunctionLearner):
    """Parameters, buffers and optimiser state by name, and the functions that use and change them."""

    def __init__(self, model: Any, seed: int = 0) -> None:
        self.model = model()
        program, library = model.program, model.library
        [checked] = model.init.expected.checked([seed])
        first = initialise(library, program, int(checked))
        self._tables = {
            table: ArrayTable(table, program.tables.get(table, ()), first.get(table, ())) for table in TABLES
        }
        structs = {table: table_of(arrays) for table, arrays in first.items()}
        self._functions = {
            name: BoundFunction(getattr(self.model, name), self._tables, structs)
            for name in (Kind.PREDICT, Kind.LOSS, Kind.GRADS, Kind.UPDATE, Kind.STEP)
        }
        many = Entry(library, program, program.kinds[Kind.STEP], many=True)
        self._step_many = BoundFunction(many, self._tables, structs)
        self._structs = structs

    def __deepcopy__(self, memo: Any) -> Learner:
        other = type(self)(type(self.model))
        for role, table in self._tables.items():
            other._tables[role].set(table)
        return other

    def step_many(self, *inputs_and_targets: Any) -> Array:
        """Train on one batch after another, each a row of the arrays; returns the loss before each step."""
        losses: Array = self._step_many(*inputs_and_targets)[0]
        return losses
