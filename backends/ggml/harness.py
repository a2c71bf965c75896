"""Adapter of an emitted library: functions on arrays, and a learner whose arrays lie on the device."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from ctypes import POINTER, byref, c_char_p, c_int, c_int64, c_ssize_t, c_void_p
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from catgrad.dims import numbers
from catgrad.errors import ToolError
from catgrad.naming import Namer
from catgrad.programs.ports import TABLES, Kind, Role
from catgrad.programs.program import Function, Program
from catgrad.terms.state import Slot
from catgrad.types import Array, symbols

from ..c import library
from ..c.harness import stacked
from ..c.library import BAD_INDEX, address, table_of
from ..host.checks import Expected
from ..host.learner import DeviceLearner
from ..host.tables import DeviceTable


class Library(library.Library):
    """A shared library, and what its models are created with."""

    def __init__(self, path: Path, prefix: str, program: Program, device: str, threads: int) -> None:
        super().__init__(path, prefix)
        self.program, self.device, self.threads = program, device, threads
        self._message = self.function("message", [c_void_p], c_char_p)

    def check(self, code: int, name: str, model: Any = None) -> None:
        """Raise the error for a status code."""
        if code == BAD_INDEX:
            raise self.refuse(code, name)
        if code:
            text = f"{self._error_string(code).decode()}: {self._message(model).decode(errors='replace')}"
            raise ToolError(f"{name} must succeed on ggml", text, "report this if ggml is in order")


class Model:
    """A model of the library, with its tables."""

    def __init__(self, library: Library) -> None:
        self.library, self.handle = library, c_void_p()
        create = library.function("create", [POINTER(c_void_p), c_char_p, c_int])
        library.check(create(byref(self.handle), library.device.encode(), library.threads), "create")

    def __del__(self) -> None:
        if self.handle:
            self.library.function("destroy", [c_void_p], None)(self.handle)

    def call(self, name: str, takes: Sequence[Any], *arguments: Any) -> None:
        """Call a function on the model. Raises: IndexError, ToolError"""
        call = self.library.function(name, [c_void_p, *takes])
        self.library.check(call(self.handle, *arguments), name, self.handle)

    def read(self, role: Role) -> list[Array]:
        """Copy the arrays of a table."""
        arrays = empty(self.library.program.tables.get(role, ()))
        if arrays:
            self.call(f"read_{role}", [c_void_p], byref(table_of(arrays)))
        return arrays

    def write(self, role: Role, arrays: Sequence[Array]) -> None:
        """Replace the arrays of a table."""
        if arrays:
            self.call(f"write_{role}", [c_void_p], byref(table_of(arrays)))


def empty(slots: Sequence[Slot]) -> list[Array]:
    """Allocate an array for each slot."""
    return [np.empty(numbers(slot.type.shape), slot.type.dtype.numpy) for slot in slots]


class Entry:
    """A function of the library on the arrays of a model; with `many`, on a batch for each step."""

    def __init__(self, library: Library, program: Program, function: Function, many: bool = False) -> None:
        self.library, self.function = library, function
        self.__name__, self.__doc__ = f"{function.name}_many" if many else function.name, function.doc
        names = tuple(function.names[v] for v in function.arguments)
        self.expected = Expected(self.__name__, names, function.argument_types, function.requirements)
        self.sizes = tuple(symbols(function.argument_types))
        self.steps = Namer(self.sizes).fresh("steps") if many else ""
        named = zip(names, function.inputs, strict=True)
        own = {name: stacked(port, self.steps) for name, port in named if not port.role.is_table}
        self.own = Expected(self.__name__, tuple(own), tuple(own.values()), function.requirements)

    def __call__(self, *values: Any) -> list[Array]:
        """Call the function on arrays of tables, then its own; returns its results in order."""
        arrays, model = self.expected.checked(values), Model(self.library)
        ports = self.function.inputs
        for role in self.function.tables:
            model.write(role, [a for p, a in zip(ports, arrays, strict=True) if p.role is role])
        given = [a for p, a in zip(ports, arrays, strict=True) if not p.role.is_table]
        results = iter(self.on(model, given, self.expected.sizes(arrays)))
        changed = {role: iter(model.read(role)) for role in self.function.changes}
        return [next(changed.get(port.role, results)) for port in self.function.outputs]

    def on(self, model: Model, given: Sequence[Array], sizes: Mapping[str, int]) -> list[Array]:
        """Call the function on a model; returns its own results."""
        ports = [port for port in self.function.inputs if not port.role.is_table]
        outputs = [port for port in self.function.outputs if not port.role.is_table]
        types = [stacked(port, self.steps).substitute(sizes) for port in outputs]
        results = [np.empty(numbers(type.shape), type.dtype.numpy) for type in types]
        structs = []
        places: list[Any] = []
        for group, arrays in ((ports, given), (outputs, results)):
            gradients = [a for p, a in zip(group, arrays, strict=True) if p.role is Role.GRADIENT]
            places += [address(a) for p, a in zip(group, arrays, strict=True) if p.role is not Role.GRADIENT]
            if gradients:
                structs.append(table_of(gradients))
                places.append(ctypes.addressof(structs[-1]))
        counts = [sizes[size] for size in (*filter(None, [self.steps]), *self.sizes)]
        takes = [*[c_ssize_t] * len(counts), *[c_void_p] * len(places)]
        model.call(self.__name__, takes, *counts, *places)
        return results


class Initial(Entry):
    """A function from a seed to the initial values of a table."""

    def __call__(self, seed: Any = 0) -> list[Array]:
        """Compute the initial values."""
        [checked] = self.expected.checked([seed])
        model = Model(self.library)
        model.call("init", [c_int64], int(checked))
        return [array for role in self.function.changes for array in model.read(role)]


class Member:
    """An array of a table of a model."""

    def __init__(self, model: Model, role: Role, index: int) -> None:
        self.model, self.role, self.index = model, role, index

    def get(self) -> Array:
        """Copy it from the device."""
        return self.model.read(self.role)[self.index]

    def put(self, array: Array) -> None:
        """Replace it."""
        arrays = self.model.read(self.role)
        arrays[self.index] = array
        self.model.write(self.role, arrays)


class Learner(DeviceLearner):
    """Parameters, buffers and optimiser state on a device, and the functions that use and change them."""

    def __init__(self, model: Any, seed: int = 0) -> None:
        self.model = model()
        library = self.model.library
        [checked] = self.model.init.expected.checked([seed])
        self.arrays = Model(library)
        self.arrays.call("init", [c_int64], int(checked))
        program = library.program
        slots = {role: program.tables.get(role, ()) for role in TABLES}
        members = {role: [Member(self.arrays, role, k) for k in range(len(slots[role]))] for role in TABLES}
        self._tables = {role: DeviceTable(role, slots[role], members[role]) for role in TABLES}
        self._functions = {
            kind: partial(self._run, getattr(self.model, function.name))
            for kind, function in program.kinds.items()
            if not kind.is_initial
        }
        self._step_many = partial(self._run, Entry(library, program, program.kinds[Kind.STEP], many=True))

    def _run(self, entry: Entry, *values: Any) -> list[Any]:
        arrays = entry.own.checked(values)
        return [y if y.ndim else y[()] for y in entry.on(self.arrays, arrays, entry.own.sizes(arrays))]
