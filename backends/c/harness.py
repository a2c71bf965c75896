"""Adapter of an emitted library: functions on arrays, with the checks and errors of the other targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from ctypes import c_size_t, c_void_p, cast
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from catgrad.dims import Dim, numbers
from catgrad.errors import ShapeError
from catgrad.naming import Namer
from catgrad.programs.ports import Port, Role
from catgrad.programs.program import Function, Program
from catgrad.types import Array, NdArrayType, substitute, symbols

from ..host.checks import Expected
from ..host.tables import Table
from ..kernels.signatures import CallConvention, separate
from .library import SharedLibrary, address, table_of
from .plans import Plan, Plans

OVERFLOW = c_size_t(-1).value
"""The workspace size that stands for an overflow of the count of bytes."""


class LibraryFunction:
    """A function of the library on arrays: those of tables, then its own. Its results are new arrays.

    With `many`, it is called on each of several batches: its own arrays have one more leading axis.
    """

    def __init__(
        self, library: SharedLibrary, program: Program, function: Function, many: bool = False
    ) -> None:
        self.library, self.program, self.function = library, program, function
        self.convention = CallConvention.of(function)
        steps = Namer(symbols(function.argument_types)).fresh("steps") if many else ""
        self.__name__, self.__doc__ = f"{function.name}_many" if many else function.name, function.doc
        names = tuple(function.names[v] for v in function.arguments)
        types = tuple(stacked(port, steps) for port in function.inputs)
        self.expected = Expected(self.__name__, names, types, function.requirements)
        first = sum(port.role.is_table for port in function.inputs)
        self.own = replace(self.expected, names=names[first:], types=types[first:])
        self.results = [stacked(port, steps) for port in separate(function.outputs)]
        self.symbols = tuple(symbols(function.argument_types))
        self.numbers = (*self.symbols, steps) if many else self.symbols
        self.plans = Plans(self.expected, self.plan)
        rest = bool(self.convention.gradients) + len(separate(function.inputs)) + len(self.results)
        self.call = library.entry_point(self.__name__, len(self.convention.tables), len(self.numbers), rest)
        self._workspace = library.workspace_bytes(function.name, len(self.symbols))

    def plan(self, sizes: dict[str, int]) -> Plan:
        """Return the plan of a call at these sizes."""
        in_order = tuple(sizes[symbol] for symbol in self.numbers)
        workspace = self._workspace(*in_order[: len(self.symbols)])
        if workspace == OVERFLOW:
            raise too_large(self.function.name, sizes)
        shapes = tuple(numbers(substitute(type.shape, sizes)) for type in self.results)
        return Plan(in_order, shapes, workspace)

    def outputs(self, plan: Plan) -> list[Any]:
        """Allocate arrays for the results."""
        pairs = zip(plan.shapes, self.results, strict=True)
        return [self.library.empty(shape, type.dtype.numpy) for shape, type in pairs]

    def __call__(self, *values: ArrayLike) -> list[Any]:
        """Call the function; returns the results in its order."""
        return self.run(*self.plans.of(values))

    def run(self, plan: Plan, inputs: Sequence[Any], in_place: bool = False) -> list[Any]:
        """Call the function on checked arrays; those that it changes are copied, unless `in_place`."""
        arrays: dict[Role, list[Any]] = {}
        own: list[Any] = []
        library = self.library
        for port, array in zip(self.function.inputs, inputs, strict=True):
            if port.role.is_table or port.role is Role.GRADIENT:
                is_copied = port.role in self.function.changes and not in_place
                arrays.setdefault(port.role, []).append(array.copy() if is_copied else array)
            else:
                own.append(library.address(array))
        if self.convention.writes_gradients:
            arrays[Role.GRADIENT] = self.new_gradients()
        own += [library.table(arrays[Role.GRADIENT])] if self.convention.gradients else []
        outputs = self.outputs(plan)
        self.invoke(arrays, plan, [*own, *map(library.address, outputs)])
        results = {role: iter(each) for role, each in arrays.items()}
        rest = iter(outputs)
        return [next(results.get(port.role, rest)) for port in self.function.outputs]

    def invoke(self, tables: Mapping[Role, Sequence[Array]], plan: Plan, rest: Sequence[int]) -> None:
        """Call the function on arrays of tables, which it may change, and the rest of its arguments."""
        arguments = [*self.structs(tables), *plan.sizes, *rest]
        self.library.run(self.call, self.__name__, arguments, plan.workspace)

    def structs(self, tables: Mapping[Role, Sequence[Array]]) -> list[Any]:
        """Return a struct of each table that the function takes."""
        return [self.library.table(tables[role]) for role, _ in self.convention.tables]

    def bound(self, tables: Mapping[Role, Table]) -> Callable[..., list[Any]]:
        """Apply the function to tables, which it changes where they are."""
        return BoundFunction(self, self.structs({role: [*t.values()] for role, t in tables.items()}))

    def new_gradients(self) -> list[Any]:
        """Allocate an array for the gradient of each parameter."""
        types = (slot.type for slot in self.program.tables[Role.PARAMETER])
        return [self.library.empty(numbers(type.shape), type.dtype.numpy) for type in types]


class BoundFunction:
    """A function with its own arrays as arguments and results; the tables are updated in place.

    It owns the structs of the tables, and whatever else is to be `kept` in memory.
    """

    def __init__(self, function: LibraryFunction, tables: Sequence[Any], kept: object = None) -> None:
        self.function, self.library, self.kept = function, function.library, (tables, kept)
        # Addresses cost a call less than structs.
        self.tables = [cast(table, c_void_p).value for table in tables]
        self.call, self.convention = function.call, function.convention
        self.plans = Plans(function.own, function.plan)
        # Calls that change the tables cannot overlap, so they may write numbers to one buffer.
        changes = any(changed for _, changed in function.convention.tables)
        is_fixed = changes and all(type.rank == 0 for type in function.results)
        self.fixed = [np.empty((), type.dtype.numpy) for type in function.results] if is_fixed else []
        self.places = list(map(address, self.fixed))

    def __call__(self, *values: ArrayLike) -> list[Any]:
        """Return the function's own results, then a gradient for each parameter if it computes these."""
        plan, arrays = self.plans.of(values)
        outputs = self.fixed or self.function.outputs(plan)
        places = self.places or map(address, outputs)
        gradients = self.function.new_gradients() if self.convention.writes_gradients else []
        own: list[Any] = (
            [table_of(arrays)] if self.convention.reads_gradients else [address(a) for a in arrays]
        )
        if gradients:
            own.append(table_of(gradients))
        code = self.call(*self.tables, *plan.sizes, *own, *places, *self.library.ending(plan.workspace))
        if code:
            raise self.library.refuse(code, self.plans.expected.function)
        return [*(y if y.ndim else y[()] for y in outputs), *gradients]


def stacked(port: Port, steps: str) -> NdArrayType:
    """Return the type of a port or, if it is no table and there are `steps`, of one array for all of them."""
    is_alone = port.role.is_table or not steps
    return port.type if is_alone else port.type.with_shape((Dim(steps), *port.type.shape))


def too_large(name: str, sizes: Mapping[str, int]) -> ShapeError:
    """Return the error for sizes whose arrays would have too many bytes."""
    return ShapeError(
        f"arrays must have at most {OVERFLOW // 2} bytes",
        f"one would have more where {', '.join(f'{symbol} = {size}' for symbol, size in sizes.items())}",
        "pass smaller ones",
        subject=name,
    )
