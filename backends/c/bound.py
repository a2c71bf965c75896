"""A function of an emitted library with its tables fixed, so that a call costs next to nothing."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from catgrad.dims import Dim
from catgrad.naming import Namer
from catgrad.types import Array, NdArrayType, symbols

from .checks import Wanted, signature
from .harness import MOST_SIGNATURES, Entry, Plan, are_aligned
from .library import address, table_of


class Bound:
    """A function on its own arrays; the tables are changed where they are. It gives its own results."""

    def __init__(self, entry: Entry, tables: Mapping[str, Mapping[str, Array]], structs: Mapping[str, Any]):
        self.entry, self.wanted, self.library = entry, entry.wanted, entry.library
        self.call, self.gradients = entry.call, entry.entry.gradients
        self.common = [array for table in entry.function.takes for array in tables[table].values()]
        self.tables = [ctypes.addressof(structs[table]) for table, _ in entry.entry.tables]
        self.plans: dict[tuple[Any, ...], Plan] = {}
        # Numbers are written to one place, from which each call reads its own.
        is_fixed = all(type.rank == 0 for type in entry.results)
        self.fixed = [np.empty((), type.dtype.numpy) for type in entry.results] if is_fixed else []
        self.places = list(map(address, self.fixed))

    def __call__(self, *values: Any) -> list[Any]:
        """The function's own results, then a gradient for each parameter if it gives these."""
        plan = self.plans.get(signature(values))
        if plan is None or not are_aligned(values):
            plan, values = self.prepared(values)
        outputs = self.fixed or self.entry.outputs(plan)
        places = self.places or map(address, outputs)
        gradients = self.entry.new_gradients() if self.gradients == "written" else []
        own: list[Any] = [table_of(values)] if self.gradients == "read" else [address(v) for v in values]
        if gradients:
            own.append(table_of(gradients))
        workspace = self.library.workspace.at_least(plan.workspace)
        code = self.call(*self.tables, *plan.sizes, *own, *places, workspace)
        if code:
            raise self.library.refuse(code, self.wanted.function)
        return [*([output[()] for output in self.fixed] or outputs), *gradients]

    def plan(self, sizes: dict[str, int]) -> Plan:
        """What a call at these sizes needs."""
        return self.entry.plan(sizes)

    def prepared(self, values: Sequence[Any]) -> tuple[Plan, Any]:
        """What a call on these needs, and the values as arrays that fit."""
        arrays = self.wanted.checked([*self.common, *values])
        plan = self.plan(self.wanted.sizes(arrays))
        arrays = arrays[len(self.common) :]
        if all(a is v for a, v in zip(arrays, values, strict=True)):
            if len(self.plans) > MOST_SIGNATURES:
                self.plans.clear()
            self.plans[signature(values)] = plan
        return plan, arrays


class Many(Bound):
    """A step on each of several batches, given as arrays with one more axis before the others."""

    def __init__(self, entry: Entry, tables: Mapping[str, Mapping[str, Array]], structs: Mapping[str, Any]):
        super().__init__(entry, tables, structs)
        self.steps = Namer(symbols(entry.own_types)).fresh("steps")
        names = entry.wanted.names[len(self.common) :]
        self.wanted = Wanted("step_many", names, tuple(map(self._many, entry.own_types)))
        self.common, self.fixed, self.places = [], [], []
        pointers = [ctypes.c_void_p] * (len(names) + 2)
        takes = [ctypes.c_void_p] * len(self.tables) + [ctypes.c_ssize_t] * (len(entry.symbols) + 1)
        self.call = entry.library.function("step_many", [*takes, *pointers])

    def _many(self, type: NdArrayType) -> NdArrayType:
        return type.with_shape((Dim(self.steps), *type.shape))

    def plan(self, sizes: dict[str, int]) -> Plan:
        """What a call at these sizes needs: the number of steps is the last."""
        steps, one = sizes[self.steps], self.entry.plan(sizes)
        return Plan((*one.sizes, steps), ((steps,),), one.workspace)
