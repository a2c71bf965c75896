"""Signatures of functions in kernel languages: which tables they take and change, then sizes and arrays.

Templates print them, and harnesses call by them; both read them here, so that they agree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from catgrad.dims import Size
from catgrad.naming import Namer
from catgrad.programs.ports import TABLES, Kind, Port, Role
from catgrad.programs.program import Function
from catgrad.types import NdArrayType, symbols


@dataclass(frozen=True)
class CallConvention:
    """The tables that a function takes and changes."""

    name: str

    tables: tuple[tuple[Role, bool], ...]
    """Each table, and whether the function changes it."""

    gradients: str = ""
    """"read", "written" or neither."""

    is_prepared: bool = False
    """Packed weights follow the tables."""

    @property
    def reads_gradients(self) -> bool:
        """Tell whether gradients are an argument, which no arrays but tables are then."""
        return self.gradients == "read"

    @property
    def writes_gradients(self) -> bool:
        """Tell whether gradients are a result."""
        return self.gradients == "written"

    @classmethod
    def of(cls, function: Function) -> CallConvention:
        """Return the convention by which a function is called."""
        tables = [table for table in TABLES if table in (*function.tables, *function.changes)]
        gradients = ""
        for usage, ports in (("read", function.inputs), ("written", function.outputs)):
            if any(port.role is Role.GRADIENT for port in ports):
                gradients = usage
        return cls(function.name, tuple((table, table in function.changes) for table in tables), gradients)


@dataclass(frozen=True)
class ArrayArgument:
    """An array argument or result: its identifier, its name, its role, its type, its shape and its length."""

    identifier: str
    name: str
    role: Role
    type: NdArrayType
    shape: str
    length: str

    @classmethod
    def of(cls, identifier: str, port: Port, size: Callable[[Size], str], **more: Any) -> Self:
        """Describe the array of a port, whose sizes are printed by `size`."""
        shape, length = ", ".join(map(size, port.type.shape)), size(port.type.size)
        return cls(identifier, port.name, port.role, port.type, shape, length, **more)

    @property
    def with_shape(self) -> str:
        """Identifier and sizes, after a 16-bit dtype, for which these languages have no type."""
        dtype = self.type.dtype
        type = f"{dtype.value} " if dtype.wide is not dtype else ""
        return f"{type}{self.identifier}{f'[{self.shape}]' if self.shape else ''}"


@dataclass(frozen=True)
class Signature:
    """A function: its calling convention and arrays; `requirements` are sizes with the least of each."""

    name: str
    doc: str
    kind: Kind
    convention: CallConvention
    sizes: tuple[str, ...]
    inputs: tuple[ArrayArgument, ...]
    outputs: tuple[ArrayArgument, ...]
    requirements: tuple[tuple[str, int], ...]

    @property
    def arguments(self) -> list[str]:
        """The names of its arguments beside tables: sizes, then arrays, or gradients."""
        gradients = ["gradients"] * self.convention.reads_gradients
        return [*self.sizes, *(array.identifier for array in self.inputs), *gradients]

    @classmethod
    def of(
        cls,
        function: Function,
        inputs: Sequence[ArrayArgument],
        outputs: Sequence[ArrayArgument],
        size: Callable[[Size], str],
        **more: Any,
    ) -> Self:
        """Describe a function whose sizes are printed by `size`; `more` are the fields of a subclass."""
        return cls(
            function.name,
            function.doc,
            function.kind,
            CallConvention.of(function),
            tuple(symbols(function.argument_types)),
            tuple(inputs),
            tuple(outputs),
            tuple((size(r.size), r.least) for r in function.requirements),
            **more,
        )


def is_separate(port: Port) -> bool:
    """Return whether an array is passed by itself: no part of a table, nor the gradient of one."""
    return not port.role.is_table and port.role is not Role.GRADIENT


def separate(ports: Sequence[Port]) -> list[Port]:
    """List the arrays that are passed by themselves."""
    return list(filter(is_separate, ports))


def initials(functions: Mapping[str, Signature]) -> list[Any]:
    """List the functions that compute initial values of a table, if it has any."""
    return [f for f in functions.values() if f.kind.is_initial and f.convention.tables]


def every_size(functions: Mapping[str, Signature]) -> tuple[str, ...]:
    """List the sizes of all functions, each once."""
    return tuple(dict.fromkeys(size for f in functions.values() for size in f.sizes))


def unused(function: Signature, wish: str) -> str:
    """Return a name that no size, argument or result of a function has."""
    own = (array.identifier for array in (*function.inputs, *function.outputs))
    return Namer([*function.sizes, *own]).fresh(wish)
