"""Learner whose arrays stay in the memory of the device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from catgrad.programs.ports import TABLES, Kind, Role
from catgrad.terms.state import Slot
from catgrad.types import Array

from ..c.initial import initialise
from ..host.learner import FunctionLearner
from ..host.tables import Table
from .device import DeviceArray
from .harness import Entry


class DeviceTable(Table):
    """Arrays of a device by name; one that is read is a copy, whose elements cannot be assigned."""

    def __init__(self, table: Role, slots: Sequence[Slot], arrays: Sequence[DeviceArray]) -> None:
        super().__init__(table, slots)
        self.arrays = {slot.name: array for slot, array in zip(slots, arrays, strict=True)}

    def __getitem__(self, name: str) -> Array:
        array = self.arrays[name].get()
        array.flags.writeable = False
        return array

    def _put(self, name: str, array: Array) -> None:
        self.arrays[name].put(array)


class Learner(FunctionLearner):
    """Parameters, buffers and optimiser state on a device, and the functions that use and change them."""

    _tables: dict[Role, DeviceTable]

    def __init__(self, model: Any, seed: int = 0) -> None:
        self.model = model()
        program, device = model.program, model.library
        [checked] = model.init.expected.checked([seed])
        first = initialise(device, program, int(checked))
        self._tables = {t: DeviceTable(t, program.tables.get(t, ()), first.get(t, ())) for t in TABLES}
        kinds = (Kind.PREDICT, Kind.LOSS, Kind.GRADS, Kind.UPDATE, Kind.STEP)
        self._functions: dict[Kind, Callable[..., list[Any]]] = {
            kind: partial(self._run, getattr(self.model, kind)) for kind in kinds
        }
        self._step_many = Entry(device, program, program.kinds[Kind.STEP], many=True)

    def step_many(self, *inputs_and_targets: Any) -> Any:
        """Train on one batch after another, each a row of the arrays; returns the loss before each step."""
        return self._run(self._step_many, *inputs_and_targets)[0]

    def _run(self, function: Entry, *own: Any) -> list[Any]:
        """Call a function on the tables, which it changes where they are."""
        roles = {*function.function.tables, *function.function.changes}
        tables = {role: [*self._tables[role].arrays.values()] for role in roles}
        results = function.on(tables, own)
        return [y[()] if isinstance(y, np.ndarray) and not y.ndim else y for y in results]

    def __deepcopy__(self, memo: Any) -> Learner:
        other = type(self)(type(self.model))
        for role, table in self._tables.items():
            other._tables[role].set(table)
        return other
