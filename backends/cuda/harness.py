"""Adapter of an emitted library: functions on arrays of the host, with the checks of the other targets."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from ctypes import c_int64, c_size_t, c_ssize_t, c_void_p
from dataclasses import replace
from typing import Any

import numpy as np

from catgrad.dims import numbers
from catgrad.programs.ports import TABLES, Port, Role
from catgrad.programs.program import Function, Program
from catgrad.types import Array, substitute, symbols

from ..c.harness import OVERFLOW, too_large
from ..c.interface import entry, own
from ..c.plans import Plan, Plans
from ..host.checks import Expected
from .device import Device, DeviceArray


class Entry:
    """A function of the library on arrays of the host: those of tables, then its own."""

    def __init__(self, device: Device, program: Program, function: Function, is_guarded: bool) -> None:
        self.device, self.program, self.function, self.is_guarded = device, program, function, is_guarded
        self.entry = entry(function)
        self.__name__, self.__doc__ = function.name, function.doc
        names = tuple(function.names[v] for v in function.arguments)
        self.expected = Expected(function.name, names, function.argument_types, function.requirements)
        self.results = [port.type for port in own(function.outputs)]
        self.symbols = tuple(symbols(function.argument_types))
        self.plans = Plans(self.expected, self.plan)
        rest = [port for port in function.inputs if not port.role.is_table]
        own_names, own_types = tuple(port.name for port in rest), tuple(port.type for port in rest)
        self.own_plans = Plans(replace(self.expected, names=own_names, types=own_types), self.plan)
        sizes = [c_ssize_t] * len(self.symbols)
        pointers = bool(self.entry.gradients) + len(own(function.inputs)) + len(self.results) + 2
        takes = [*[c_void_p] * len(self.entry.tables), *sizes, *[c_void_p] * pointers]
        self.call = device.function(self.entry.name, takes)
        self._workspace = device.function(f"{self.entry.name}_workspace_bytes", sizes, c_size_t)

    def plan(self, sizes: dict[str, int]) -> Plan:
        """Return the plan of a call at these sizes."""
        in_order = tuple(sizes[symbol] for symbol in self.symbols)
        workspace = self._workspace(*in_order)
        if workspace == OVERFLOW:
            raise too_large(self.function.name, sizes)
        shapes = tuple(numbers(substitute(type.shape, sizes)) for type in self.results)
        return Plan(in_order, shapes, workspace)

    def __call__(self, *values: Any) -> list[Array]:
        """Call the function on arrays of the host; returns the results in its order."""
        plan, inputs = self.plans.of(values)
        results = self._run(plan, zip(self.function.inputs, map(self._put, inputs), strict=True), {})
        return [result.get() for result in results]

    def on(self, tables: Mapping[Role, Sequence[DeviceArray]], values: Sequence[Any]) -> list[Array]:
        """Call the function on tables of the device, and arrays of the host; returns its own results."""
        plan, inputs = self.own_plans.of(values)
        ports = [port for port in self.function.inputs if not port.role.is_table]
        results = self._run(plan, zip(ports, map(self._put, inputs), strict=True), tables)
        pairs = zip(self.function.outputs, results, strict=True)
        return [array.get() for port, array in pairs if not port.role.is_table]

    def _run(
        self,
        plan: Plan,
        inputs: Iterable[tuple[Port, DeviceArray]],
        tables: Mapping[Role, Sequence[DeviceArray]],
    ) -> list[DeviceArray]:
        """Call the function on arrays of the device; returns the results, of which tables are updated."""
        every = {role: list(arrays) for role, arrays in tables.items()}
        arrays: list[DeviceArray] = []
        for port, array in inputs:
            is_member = port.role.is_table or port.role is Role.GRADIENT
            (every.setdefault(port.role, []) if is_member else arrays).append(array)
        if self.entry.gradients == "written":
            types = (slot.type for slot in self.program.tables[Role.PARAMETER])
            every[Role.GRADIENT] = [self._new(numbers(t.shape), t.dtype.numpy) for t in types]
        outputs = [
            self._new(shape, type.dtype.numpy) for shape, type in zip(plan.shapes, self.results, strict=True)
        ]
        structs = [table_of(every[table]) for table, _ in self.entry.tables]
        gradients = [table_of(every[Role.GRADIENT])] if self.entry.gradients else []
        before, after = (gradients, []) if self.entry.gradients == "read" else ([], gradients)
        given = [*before, *(a.address for a in arrays), *after, *(y.address for y in outputs)]
        workspace = self.device.at_least(plan.workspace)
        code = self.call(*structs, *plan.sizes, *given, workspace, self.device.stream)
        self.device.finish(code, self.__name__, self.is_guarded)
        members = {role: iter(each) for role, each in every.items()}
        rest = iter(outputs)
        return [next(members.get(port.role, rest)) for port in self.function.outputs]

    def _new(self, shape: Sequence[int], dtype: np.dtype[Any]) -> DeviceArray:
        return DeviceArray(self.device, shape, dtype)

    def _put(self, array: Array) -> DeviceArray:
        new = self._new(array.shape, array.dtype)
        new.put(array)
        return new


class Initial:
    """A function from a seed to the initial values of a table."""

    def __init__(self, device: Device, program: Program, function: Function) -> None:
        self.device, self.program, self.function = device, program, function
        self.__name__, self.__doc__ = function.name, function.doc
        self.expected = Expected(function.name, ("seed",), function.argument_types)

    def __call__(self, seed: Any = 0) -> list[Array]:
        """Compute the initial values, determined by the seed."""
        [checked] = self.expected.checked([seed])
        first = initialise(self.device, self.program, int(checked))
        return [array.get() for table in self.function.changes for array in first[table]]


def initialise(device: Device, program: Program, seed: int) -> dict[Role, list[DeviceArray]]:
    """Compute the initial values of every table that is not empty."""
    tables = {
        table: [DeviceArray(device, numbers(s.type.shape), s.type.dtype.numpy) for s in program.tables[table]]
        for table in TABLES
        if program.tables.get(table)
    }
    if tables:
        call = device.function("init", [c_int64, *[c_void_p] * len(tables), c_void_p, c_void_p])
        bytes = device.function("init_workspace_bytes", [], c_size_t)()
        code = call(seed, *map(table_of, tables.values()), device.at_least(bytes), device.stream)
        device.finish(code, "init", False)
    return tables


def table_of(arrays: Sequence[DeviceArray]) -> Any:
    """Return the struct of a table whose members point to these arrays."""
    return (ctypes.c_void_p * max(len(arrays), 1))(*(array.address for array in arrays))
