"""Adapter of an emitted library: functions on arrays, with the checks and errors of the other targets."""

from __future__ import annotations

from collections.abc import Mapping
from ctypes import c_size_t, c_ssize_t, c_void_p
from typing import Any

import numpy as np

from catgrad.dims import numbers
from catgrad.errors import ShapeError
from catgrad.programs.ports import Role
from catgrad.programs.program import Function, Program
from catgrad.types import Array, substitute, symbols

from ..host.checks import Expected
from .interface import entry, own
from .library import Library, address, table_of
from .plans import Plan, Plans

OVERFLOW = c_size_t(-1).value
"""The workspace size that stands for an overflow of the count of bytes."""


class Entry:
    """A function of the library on arrays: those of tables, then its own. Its results are new arrays."""

    def __init__(self, library: Library, program: Program, function: Function) -> None:
        self.library, self.program, self.function = library, program, function
        self.entry = entry(function)
        self.__name__, self.__doc__ = function.name, function.doc
        names = tuple(function.names[v] for v in function.arguments)
        self.expected = Expected(function.name, names, function.argument_types, function.requirements)
        self.own_types = tuple(port.type for port in own(function.inputs))
        self.results = [port.type for port in own(function.outputs)]
        self.symbols = tuple(symbols(function.argument_types))
        self.plans = Plans(self.expected, self.plan)
        pointers = len(self.entry.tables) + bool(self.entry.gradients) + len(self.own_types)
        self.takes_sizes = [c_ssize_t] * len(self.symbols)
        tables = [c_void_p] * len(self.entry.tables)
        rest = [c_void_p] * (pointers - len(tables) + len(self.results) + 1)
        self.call = library.function(self.entry.name, [*tables, *self.takes_sizes, *rest])
        self._workspace = library.function(f"{self.entry.name}_workspace_bytes", self.takes_sizes, c_size_t)

    def plan(self, sizes: dict[str, int]) -> Plan:
        """Return the plan of a call at these sizes."""
        in_order = tuple(sizes[symbol] for symbol in self.symbols)
        workspace = self._workspace(*in_order)
        if workspace == OVERFLOW:
            raise too_large(self.function.name, sizes)
        shapes = tuple(numbers(substitute(type.shape, sizes)) for type in self.results)
        return Plan(in_order, shapes, workspace)

    def outputs(self, plan: Plan) -> list[Array]:
        """Allocate arrays for the results."""
        pairs = zip(plan.shapes, self.results, strict=True)
        return [np.empty(shape, type.dtype.numpy) for shape, type in pairs]

    def __call__(self, *values: Any) -> list[Array]:
        """Call the function; returns the results in its order."""
        plan, inputs = self.plans.of(values)
        arrays: dict[Role, list[Array]] = {}
        own: list[Any] = []
        for port, array in zip(self.function.inputs, inputs, strict=True):
            if port.role.is_table or port.role is Role.GRADIENT:
                new = array.copy() if port.role in self.function.changes else array
                arrays.setdefault(port.role, []).append(new)
            else:
                own.append(address(array))
        if self.entry.gradients == "written":
            arrays[Role.GRADIENT] = self.new_gradients()
        structs = [table_of(arrays[table]) for table, _ in self.entry.tables]
        own += [table_of(arrays[Role.GRADIENT])] if self.entry.gradients else []
        outputs = self.outputs(plan)
        workspace = self.library.workspace.at_least(plan.workspace)
        code = self.call(*structs, *plan.sizes, *own, *map(address, outputs), workspace)
        if code:
            raise self.library.refuse(code, self.__name__)
        results = {role: iter(each) for role, each in arrays.items()}
        rest = iter(outputs)
        return [next(results.get(port.role, rest)) for port in self.function.outputs]

    def new_gradients(self) -> list[Array]:
        """Allocate an array for the gradient of each parameter."""
        types = (slot.type for slot in self.program.tables[Role.PARAMETER])
        return [np.empty(numbers(type.shape), type.dtype.numpy) for type in types]


def too_large(name: str, sizes: Mapping[str, int]) -> ShapeError:
    """Return the error for sizes whose arrays would have too many bytes."""
    return ShapeError(
        f"arrays must have at most {OVERFLOW // 2} bytes",
        f"one would have more where {', '.join(f'{symbol} = {size}' for symbol, size in sizes.items())}",
        "pass smaller ones",
        subject=name,
    )
