"""Learner whose arrays stay in the memory of the device."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from catgrad.programs.ports import TABLES, Kind

from ..c.initial import initialise
from ..host.learner import DeviceLearner
from ..host.tables import DeviceTable
from .harness import Entry


class Learner(DeviceLearner):
    """Parameters, buffers and optimiser state on a device, and the functions that use and change them."""

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
        many = Entry(device, program, program.kinds[Kind.STEP], many=True)
        self._step_many = partial(self._run, many)

    def _run(self, function: Entry, *own: Any) -> list[Any]:
        """Call a function on the tables, which it changes where they are."""
        roles = {*function.function.tables, *function.function.changes}
        tables = {role: [*self._tables[role].arrays.values()] for role in roles}
        results = function.on(tables, own)
        return [y[()] if isinstance(y, np.ndarray) and not y.ndim else y for y in results]
