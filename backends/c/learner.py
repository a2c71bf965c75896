"""Learner whose arrays an emitted library updates in place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from catgrad.programs.ports import TABLES, Kind
from catgrad.types import Array

from ..host.tables import ArrayTable, Owner
from .bound import BatchedFunction, BoundFunction
from .initial import initialise
from .library import table_of


class Learner(Owner):
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
        self._step = self._functions[Kind.STEP]
        self._step_many = BatchedFunction(self.model.step, self._tables, structs)
        self._structs = structs

    def __deepcopy__(self, memo: Any) -> Learner:
        other = type(self)(type(self.model))
        for role, table in self._tables.items():
            other._tables[role].set(table)
        return other

    def predict(self, *inputs: Any) -> Any:
        """Compute the model's output; a list if there are several."""
        outputs = self._functions[Kind.PREDICT](*inputs)
        return outputs[0] if len(outputs) == 1 else outputs

    def loss(self, *inputs_and_targets: Any) -> Any:
        """Compute the loss between the outputs and the targets."""
        [loss] = self._functions[Kind.LOSS](*inputs_and_targets)
        return loss

    def grads(self, *inputs_and_targets: Any) -> tuple[Any, dict[str, Array]]:
        """Compute the loss on one batch and its gradient by name, for accumulation and `update`."""
        loss, *gradients = self._functions[Kind.GRADS](*inputs_and_targets)
        return loss, dict(zip(self.parameters, gradients, strict=True))

    def update(self, gradients: Mapping[str, Any]) -> None:
        """Update the parameters by the optimiser, with a gradient for each."""
        self._functions[Kind.UPDATE](*(gradients[name] for name in self.parameters))

    def step(self, *inputs_and_targets: Any) -> Any:
        """Train on one batch; returns the loss before the step."""
        return self._step(*inputs_and_targets)[0]

    def step_many(self, *inputs_and_targets: Any) -> Array:
        """Train on one batch after another, each a row of the arrays; returns the loss before each step."""
        losses: Array = self._step_many(*inputs_and_targets)[0]
        return losses
