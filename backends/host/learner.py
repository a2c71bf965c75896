"""Learners: the tables of an emitted program, and its functions on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from catgrad.programs.ports import INITIAL, TABLES, Kind
from catgrad.programs.program import Function, Program
from catgrad.types import Array

from .tables import ArrayTable, Owner


class FunctionLearner(Owner):
    """Parameters, buffers and optimiser state by name, and the functions that use and change them.

    `_functions` take their own arguments and return their own results: tables are fixed in them.
    """

    _functions: Mapping[Kind, Callable[..., list[Any]]]

    def predict(self, *inputs: Any) -> Any:
        """Compute the model's output; a list if there are several."""
        return single(self._functions[Kind.PREDICT](*inputs))

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
        return self._functions[Kind.STEP](*inputs_and_targets)[0]


def single(outputs: list[Any]) -> Any:
    """Return the only output, or the list if there are several."""
    return outputs[0] if len(outputs) == 1 else outputs


class LibraryLearner(FunctionLearner):
    """A learner whose tables an emitted library keeps, on any device, and changes where they are."""

    def __init__(self, model: Any, seed: int = 0) -> None:
        self.model = model()
        program, self._tables = self.model.program, self.model.init.tables(seed)
        entries = {
            kind: getattr(self.model, function.name)
            for kind, function in program.kinds.items()
            if not kind.is_initial
        }
        self._functions = {kind: entry.bound(self._tables) for kind, entry in entries.items()}
        step = entries[Kind.STEP]
        self._step_many = type(step)(step.library, program, step.function, many=True).bound(self._tables)

    def step_many(self, *inputs_and_targets: Any) -> Any:
        """Train on one batch after another, each a row of the arrays; returns the loss before each step."""
        return self._step_many(*inputs_and_targets)[0]

    def __deepcopy__(self, memo: Any) -> LibraryLearner:
        other = type(self)(type(self.model))
        for role, table in self._tables.items():
            other._tables[role].set(table)
        return other


class PureLearner(FunctionLearner):
    """A learner over functions of whole tables, which return the new ones."""

    def __init__(
        self, program: Program, functions: Mapping[Kind, Callable[..., Sequence[Array]]], seed: Any = 0
    ) -> None:
        slots = {role: program.tables.get(role, ()) for role in TABLES}
        first = {role: functions[INITIAL[role]](seed) if slots[role] else () for role in TABLES}
        self._tables = {role: ArrayTable(role, slots[role], first[role]) for role in TABLES}
        self._functions = {
            kind: partial(self._run, function, functions[kind])
            for kind, function in program.kinds.items()
            if not kind.is_initial
        }

    def _run(self, function: Function, run: Callable[..., Sequence[Array]], *own: Any) -> list[Any]:
        """Call a function on the tables as they are, and assign those that it returns."""
        taken = [self._tables[port.role][port.name] for port in function.inputs if port.role.is_table]
        results = []
        for port, array in zip(function.outputs, run(*taken, *own), strict=True):
            if port.role.is_table:
                self._tables[port.role][port.name] = array
            else:
                results.append(array if array.ndim else array[()])
        return results
