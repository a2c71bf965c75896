"""Learners: the tables of an emitted program, and its functions on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, Self

from numpy.typing import ArrayLike

from catgrad.errors import not_emitted
from catgrad.learn.task import LEARNER
from catgrad.programs.ports import INITIAL, TABLES, Kind
from catgrad.programs.program import Function, Program
from catgrad.types import Array

from .process import Turns
from .tables import ArrayTable, Owner, in_order

STEP_MANY = "step_many"
"""The variant of `step` that takes several batches."""


class FunctionLearner(Owner):
    """Parameters, buffers and optimiser state by name, and the functions that use and change them.

    `_functions` take their own arguments and return their own results: tables are fixed in them.
    """

    _functions: Mapping[Kind, Callable[..., list[Any]]]

    def _call(self, kind: Kind, *own: object) -> list[Any]:
        """Call a function; those of one learner take turns."""
        if kind not in self._functions:
            raise not_emitted(kind, self._emitted)
        with self.lock:
            return self._functions[kind](*own)

    @property
    def _emitted(self) -> list[str]:
        return [*self._functions]

    @property
    def lacks(self) -> frozenset[str]:
        """The functions that were not emitted, whose calls raise NotEmitted."""
        return frozenset(map(str, LEARNER)) - frozenset(self._functions)

    def predict(self, *inputs: ArrayLike) -> Any:
        """Compute the model's output; a list if there are several."""
        return single(self._call(Kind.PREDICT, *inputs))

    def loss(self, *inputs_and_targets: ArrayLike) -> Any:
        """Compute the loss between the outputs and the targets."""
        [loss] = self._call(Kind.LOSS, *inputs_and_targets)
        return loss

    def grads(self, *inputs_and_targets: ArrayLike) -> tuple[Any, dict[str, Array]]:
        """Compute the loss on one batch and its gradient by name, for accumulation and `update`."""
        loss, *gradients = self._call(Kind.GRADS, *inputs_and_targets)
        return loss, dict(zip(self.parameters, gradients, strict=True))

    def update(self, gradients: Mapping[str, ArrayLike]) -> None:
        """Update the parameters by the optimiser, with a gradient for each."""
        self._call(Kind.UPDATE, *in_order("gradients", gradients, self.parameters))

    def step(self, *inputs_and_targets: ArrayLike) -> Any:
        """Train on one batch; returns the loss before the step."""
        return self._call(Kind.STEP, *inputs_and_targets)[0]


def single(outputs: list[Array]) -> Any:
    """Return the only output, or the list if there are several."""
    return outputs[0] if len(outputs) == 1 else outputs


class LibraryLearner(FunctionLearner):
    """A learner whose tables an emitted library keeps, on any device, and changes where they are."""

    def __init__(self, model: Any, seed: int = 0) -> None:
        self.model = model()
        program = self.model.program
        self._own(self.model.init.tables(seed), None if self.model.library.forks else Turns())
        entries = {
            kind: getattr(self.model, function.name)
            for kind, function in program.kinds.items()
            if not kind.is_initial
        }
        self._functions = {kind: entry.bound(self._tables) for kind, entry in entries.items()}
        if STEP_MANY in program.variants:
            step = entries[Kind.STEP]
            self._step_many = type(step)(step.library, program, step.function, many=True).bound(self._tables)

    def step_many(self, *inputs_and_targets: ArrayLike) -> Any:
        """Train on one batch after another, each a row of the arrays; returns the loss before each step.

        Raises: NotEmitted if it was not
        """
        if STEP_MANY not in self.model.program.variants:
            raise not_emitted(STEP_MANY, self._emitted)
        with self.lock:
            return self._step_many(*inputs_and_targets)[0]

    def another(self) -> Self:
        """Return another learner of the same program."""
        return type(self)(type(self.model))


class Tabular(Protocol):
    """A function of arrays of tables and of its own, which returns both."""

    def __call__(self, *arrays: ArrayLike) -> Sequence[Array]:
        """Call it on all arrays."""

    def on(self, tables: Sequence[Any], own: Sequence[Any]) -> Sequence[Array]:
        """Call it on arrays of tables, which its errors do not count, then on its own."""


class PureLearner(FunctionLearner):
    """A learner over functions of whole tables, which return the new ones."""

    def __init__(self, program: Program, functions: Mapping[Kind, Tabular], seed: int = 0) -> None:
        self._program = program
        slots = {role: program.tables.get(role, ()) for role in TABLES}
        first = {role: functions[INITIAL[role]](seed) if slots[role] else () for role in TABLES}
        self._own({role: ArrayTable(role, slots[role], first[role]) for role in TABLES})
        self._all = functions
        self._functions = {
            kind: partial(self._run, function, functions[kind])
            for kind, function in program.kinds.items()
            if not kind.is_initial
        }

    def another(self) -> Self:
        """Return another learner of the same program."""
        return type(self)(self._program, self._all)

    def _run(self, function: Function, run: Tabular, *own: Array) -> list[Any]:
        """Call a function on the tables as they are, and assign those that it returns."""
        taken = [self._tables[port.role][port.name] for port in function.inputs if port.role.is_table]
        results = []
        for port, array in zip(function.outputs, run.on(taken, own), strict=True):
            if port.role.is_table:
                self._tables[port.role][port.name] = array
            else:
                results.append(array if array.ndim else array[()])
        return results
