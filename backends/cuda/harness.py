"""Adapter of an emitted library: functions on arrays of the host, and on others by DLPack."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from catgrad.programs.ports import Role
from catgrad.programs.program import Function, Program
from catgrad.types import Array, NdArrayType

from ..c.harness import LibraryFunction
from ..c.plans import MAX_CACHED_PLANS, Plan
from ..host.checks import as_in_c
from .device import Device, DeviceArray


class DeviceFunction(LibraryFunction):
    """A function of the library. Results are arrays of NumPy, or like the first argument on the device."""

    library: Device

    def __init__(self, device: Device, program: Program, function: Function, many: bool = False) -> None:
        super().__init__(device, program, function, many)
        self._known: dict[tuple[object, ...], Plan] = {}

    def __call__(self, *values: ArrayLike) -> list[Any]:
        """Call the function; returns the results in its order."""
        plan, arrays = self._checked(values)
        return self._returned(self.run(plan, arrays), values)

    def bound(self, tables: Mapping[Role, Any]) -> Callable[..., list[Any]]:
        """Apply the function to tables, which it changes where they are."""
        arrays = {role: table.arrays for role, table in tables.items()}
        taken = [arrays[port.role][port.name] for port in self.function.inputs if port.role.is_table]
        return partial(self._on, taken)

    def _on(self, tables: Sequence[DeviceArray], *values: Any) -> list[Any]:
        plan, inputs = self._checked([*tables, *values], len(tables))
        pairs = zip(self.function.outputs, self.run(plan, inputs, in_place=True), strict=True)
        results = self._returned([array for port, array in pairs if not port.role.is_table], values)
        return [y[()] if isinstance(y, np.ndarray) and not y.ndim else y for y in results]

    def _checked(self, values: Sequence[Any], bound: int = 0) -> tuple[Plan, list[DeviceArray]]:
        """Return the plan for these values, and the values on the device. Raises: as Expected.checked"""
        expected = self.expected
        expected.check_number(values, bound)
        names = [f"{self.__name__}: {name}" for name in expected.names]
        arrays = [
            self.library.taken(value, name)
            if self.library.has(value)
            else expected.as_array(value, values, bound)
            for value, name in zip(values, names, strict=True)
        ]
        seen = tuple(array.shape for array in arrays)
        plan = self._known.get(seen)
        if plan is None:
            expected.check_shapes(arrays, values)
            if len(self._known) >= MAX_CACHED_PLANS:
                self._known.clear()
            plan = self._known[seen] = self.plan(expected.sizes(arrays))
        named = zip(arrays, names, expected.types, strict=True)
        return plan, [self._on_device(array, name, type) for array, name, type in named]

    def _on_device(self, array: DeviceArray | Array, what: str, type: NdArrayType) -> DeviceArray:
        if isinstance(array, DeviceArray):
            if array.dtype != type.dtype.numpy:
                raise TypeError(f"{what} must be {type.dtype.numpy}, but it is {array.dtype}; convert it")
            return array
        checked = as_in_c(array, type, what)
        new = self.library.empty(checked.shape, checked.dtype)
        new.put(checked)
        return new

    def _returned(self, results: Sequence[DeviceArray], values: Sequence[ArrayLike]) -> list[Any]:
        """Return results on the host, or on the device like the first argument there."""
        here = [value for value in values if self.library.has(value)]
        return [self.library.like(array, here[0]) if here else array.get() for array in results]
