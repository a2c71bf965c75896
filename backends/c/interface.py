"""Calling convention of an emitted library: names of functions, and the order of their arguments.

The templates print it as C, and the harness calls by it; both read it here, so that they agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from math import prod
from typing import Any, NamedTuple, Self

from catgrad.dims import Size, numbers
from catgrad.errors import OptionError
from catgrad.formats.elements import FORMAT_NAMES
from catgrad.naming import Namer
from catgrad.programs.ports import TABLES, Kind, Port, Role
from catgrad.programs.program import Function, Program
from catgrad.terms.state import Slot
from catgrad.types import NdArrayType, symbols

ALIGNMENT = 64
"""Bytes of a cache line, at whose multiples the workspace and the arrays of a table begin."""

CODES = {
    "OK": "no error",
    "BAD_SIZE": "a size is negative or too small, or an array of such sizes too large",
    "NULL": "a pointer is NULL that must not be",
    "MISALIGNED": "the workspace does not begin at a multiple of 64 bytes",
    "BAD_INDEX": "an index lies outside its array",
    "NO_FILE": "the file cannot be opened",
    "BAD_FILE": "the file is not a whole safetensors file",
    "OTHER_ARRAYS": "the file lacks an array of the model, or has another",
    "OTHER_TYPES": "an array of the file has another dtype or shape than the model's",
    "NO_MEMORY": "there is too little memory",
    "NOT_WRITTEN": "the file cannot be written",
}
"""Status codes of functions, in the order of their numbers, and their meanings."""


FILES = ("train", "train_mpi", "data", "weights")
"""The emitted programs, and the files that they read and write, whose names no library may have."""


OWN = (
    *TABLES, *(f"{table}_{verb}" for table in TABLES for verb in ("bytes", "place", "point", "copy")),
    *(f"{verb}_{table}" for table in TABLES for verb in ("read", "write")),
    "write_trained", "load", "save", "epochs", "set_epochs", "file", "file_*", "array",
    "gradients", "prepared", "prepared_*", "prepare", "status", "read_status", "clear_status", "error_string",
    "message", "create", "destroy", "model", "tables", "stream", "libraries", "libraries_*", "value_of_*",
    "workspace_bytes", "*_workspace_bytes", "*_many", "*_prepared", "*_arrays", "*_place",
)  # fmt: skip
"""The names in the library, after its prefix, that are not those of the program's functions."""


@dataclass(frozen=True)
class Entry:
    """The tables that a function takes and changes.

    `tables` are pairs of a table and whether it is changed. `gradients` is "read", "written" or
    neither; where they are read, they are the function's only arguments beside tables. One that
    `is_prepared` takes packed weights after its tables.
    """

    name: str
    tables: tuple[tuple[Role, bool], ...]
    gradients: str = ""
    is_prepared: bool = False


@dataclass(frozen=True)
class CArgument:
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
        """Identifier and sizes, after a 16-bit dtype, for which C has no type."""
        dtype = self.type.dtype
        type = f"{dtype.value} " if dtype.wide is not dtype else ""
        return f"{type}{self.identifier}{f'[{self.shape}]' if self.shape else ''}"


@dataclass(frozen=True)
class Signature:
    """A function in C: its calling convention and arrays; `requirements` are sizes with the least of each."""

    name: str
    doc: str
    kind: Kind
    entry: Entry
    sizes: tuple[str, ...]
    inputs: tuple[CArgument, ...]
    outputs: tuple[CArgument, ...]
    requirements: tuple[tuple[str, int], ...]

    @classmethod
    def of(
        cls, function: Function, inputs: Sequence[CArgument], outputs: Sequence[CArgument],
        size: Callable[[Size], str], **more: Any,
    ) -> Self:  # fmt: skip
        """Describe a function whose sizes are printed by `size`; `more` are the fields of a subclass."""
        return cls(
            function.name, function.doc, function.kind, entry(function),
            tuple(symbols(function.argument_types)), tuple(inputs), tuple(outputs),
            tuple((size(r.size), r.least) for r in function.requirements), **more,
        )  # fmt: skip


def prefix(program: Program) -> str:
    """Return the prefix of every name in the library."""
    return Namer().fresh(program.name)


def require_name(program: Program, reserved: Iterable[str]) -> None:
    """Check the names of the library's files and functions. Raises: OptionError if one is used otherwise"""
    wanted = prefix(program)
    if wanted in FILES or Namer(reserved).fresh(program.name) != wanted:
        raise OptionError(
            "the name of a model in C must not be used by C, C++ or the emitted files",
            f"it is {program.name!r}",
            "choose another name",
        )


def require_functions(program: Program) -> None:
    """Check that no function is called like a type or function for files. Raises: OptionError"""
    for function in program.functions:
        if Namer(OWN).fresh(function.name) != function.name:
            raise OptionError(
                "a function in C must have a name that the emitted files do not use",
                f"it is {function.name!r}",
                "choose another name",
            )


def entry(function: Function) -> Entry:
    """Return the calling convention of a function in C."""
    tables = [table for table in TABLES if table in (*function.tables, *function.changes)]
    gradients = ""
    for usage, ports in (("read", function.inputs), ("written", function.outputs)):
        if any(port.role is Role.GRADIENT for port in ports):
            gradients = usage
    return Entry(function.name, tuple((table, table in function.changes) for table in tables), gradients)


def own(ports: Sequence[Port]) -> list[Port]:
    """List the arrays that are passed separately: not parts of a table, nor gradients of one."""
    return [port for port in ports if not port.role.is_table and port.role is not Role.GRADIENT]


def initials(functions: Mapping[str, Any]) -> list[Any]:
    """List the functions that compute initial values of a table, if it has any."""
    return [f for f in functions.values() if f.kind.is_initial and f.entry.tables]


def every_size(functions: Mapping[str, Any]) -> tuple[str, ...]:
    """List the sizes of all functions, each once."""
    return tuple(dict.fromkeys(size for f in functions.values() for size in f.sizes))


MARGIN = 8
"""The column of lists that are too long for lines at their own column."""


def listed(
    items: str | Sequence[str], start: int, separator: str = ", ", width: int = 110, margin: int = MARGIN
) -> str:
    """Join items, or those of a text with commas, into lines that are not long.

    They begin at column `start`, or below it at column `margin`, where that saves lines.
    """
    parts = items.strip().split(", ") if isinstance(items, str) else items
    lines, below = (_filled(parts, column, separator, width) for column in (start, margin))
    longest = start + max(map(len, parts), default=0)
    if start > margin and (longest > width or len(below) + 1 < len(lines)):
        return "".join(f"\n{' ' * margin}{line}" for line in below)
    return f"\n{' ' * start}".join(lines)


def _filled(parts: Sequence[str], start: int, separator: str, width: int) -> list[str]:
    """Fill lines from a column with parts."""
    lines, line = [], ""
    for part in parts:
        longer = f"{line}{separator}{part}" if line else part
        if line and start + len(longer) > width:
            lines.append(line + separator.rstrip())
            longer = part
        line = longer
    return [*lines, line]


def unused(function: Any, wish: str) -> str:
    """Return a name that no size, argument or result of a function has."""
    own = (array.identifier for array in (*function.inputs, *function.outputs))
    return Namer([*function.sizes, *own]).fresh(wish)


@dataclass(frozen=True)
class LayerStruct:
    """The struct of each of `count` equal layers, a part of a table's struct."""

    identifier: str
    count: int


class Member(NamedTuple):
    """An array of a table, and its member in the table's struct, or in that of its layer."""

    slot: Slot
    identifier: str
    layers: LayerStruct | None = None
    name: str = ""


@dataclass(frozen=True)
class Place:
    """An array of a table: its member in the table's struct, and its layout in memory and in files."""

    slot: Slot
    identifier: str
    offset: int
    layers: LayerStruct | None = None
    name: str = ""

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Shape with all sizes known."""
        return numbers(self.slot.type.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        """Size in bytes."""
        return self.size * self.slot.type.dtype.itemsize

    @property
    def format_name(self) -> str:
        """Name of its dtype in safetensors."""
        return FORMAT_NAMES[self.slot.type.dtype.name]


@dataclass(frozen=True)
class Layout:
    """Memory layout of a table: its arrays one after another."""

    places: tuple[Place, ...] = field(default=())

    @property
    def bytes(self) -> int:
        """Size of the table in bytes."""
        return aligned(self.places[-1].offset + self.places[-1].bytes) if self.places else 0

    def __iter__(self) -> Iterator[Place]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)

    @property
    def parts(self) -> list[Part]:
        """The members of the struct: single arrays, and arrays of layers."""
        found = []
        for layers, places in groupby(self.places, key=lambda place: place.layers):
            every = tuple(places)
            width = len(every) // layers.count if layers else 1
            found += (
                [Part(None, (each,), 0) for each in every]
                if not layers
                else [Part(layers, every[:width], every[width].offset - every[0].offset)]
            )
        return found


@dataclass(frozen=True)
class Part:
    """One array, or the arrays of the first of equal layers, which lie a `stride` of bytes apart."""

    layers: LayerStruct | None
    places: tuple[Place, ...]
    stride: int


def aligned(bytes: int) -> int:
    """Round up to the alignment."""
    return -(-bytes // ALIGNMENT) * ALIGNMENT


def layouts(tables: Mapping[Role, Sequence[Member]]) -> dict[Role, Layout]:
    """Lay out the tables that are not empty, in the order in which functions take them."""
    return {table: _layout(tables[table]) for table in TABLES if tables.get(table)}


def _layout(members: Sequence[Member]) -> Layout:
    places, end = list[Place](), 0
    for slot, identifier, layers, name in members:
        places.append(Place(slot, identifier, end, layers, name))
        end = aligned(end + places[-1].bytes)
    return Layout(tuple(places))
