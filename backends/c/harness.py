"""Adapter of an emitted library: functions on arrays, with the checks and errors of the other targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ctypes import c_size_t, c_ssize_t, c_void_p
from typing import Any

from catgrad.dims import Dim, numbers
from catgrad.errors import ShapeError
from catgrad.naming import Namer
from catgrad.programs.ports import Port, Role
from catgrad.programs.program import Function, Program
from catgrad.types import NdArrayType, substitute, symbols

from ..host.checks import Expected
from .interface import entry, own
from .library import Library
from .plans import Plan, Plans

OVERFLOW = c_size_t(-1).value
"""The workspace size that stands for an overflow of the count of bytes."""


class Entry:
    """A function of the library on arrays: those of tables, then its own. Its results are new arrays.

    With `many`, it is called on each of several batches: its own arrays have one more leading axis.
    """

    def __init__(self, library: Library, program: Program, function: Function, many: bool = False) -> None:
        self.library, self.program, self.function = library, program, function
        self.entry = entry(function)
        steps = Namer(symbols(function.argument_types)).fresh("steps") if many else ""
        self.__name__, self.__doc__ = f"{function.name}_many" if many else function.name, function.doc
        names = tuple(function.names[v] for v in function.arguments)
        types = tuple(stacked(port, steps) for port in function.inputs)
        self.expected = Expected(self.__name__, names, types, function.requirements)
        self.own_types = tuple(stacked(port, steps) for port in own(function.inputs))
        self.results = [stacked(port, steps) for port in own(function.outputs)]
        self.symbols = tuple(symbols(function.argument_types))
        self.numbers = (*self.symbols, steps) if many else self.symbols
        self.plans = Plans(self.expected, self.plan)
        tables = [c_void_p] * len(self.entry.tables)
        rest = [c_void_p] * (bool(self.entry.gradients) + len(self.own_types) + len(self.results))
        sizes = [c_ssize_t] * len(self.numbers)
        native = f"{self.entry.name}_many" if many else self.entry.name
        self.call = library.function(native, [*tables, *sizes, *rest, *library.trailing])
        self._workspace = library.function(
            f"{self.entry.name}_workspace_bytes", sizes[: len(self.symbols)], c_size_t
        )

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

    def __call__(self, *values: Any) -> list[Any]:
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
        if self.entry.gradients == "written":
            arrays[Role.GRADIENT] = self.new_gradients()
        structs = [library.table(arrays[table]) for table, _ in self.entry.tables]
        own += [library.table(arrays[Role.GRADIENT])] if self.entry.gradients else []
        outputs = self.outputs(plan)
        arguments = [*structs, *plan.sizes, *own, *map(library.address, outputs)]
        library.run(self.call, self.__name__, arguments, plan.workspace)
        results = {role: iter(each) for role, each in arrays.items()}
        rest = iter(outputs)
        return [next(results.get(port.role, rest)) for port in self.function.outputs]

    def new_gradients(self) -> list[Any]:
        """Allocate an array for the gradient of each parameter."""
        types = (slot.type for slot in self.program.tables[Role.PARAMETER])
        return [self.library.empty(numbers(type.shape), type.dtype.numpy) for type in types]


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
