"""Memory layout of tables: their arrays one after another, at multiples of a cache line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from math import prod

from catgrad.dims import numbers
from catgrad.formats.elements import FORMAT_NAMES
from catgrad.programs.ports import TABLES, Role
from catgrad.programs.segments import patterns
from catgrad.terms.state import Slot

from ..kernels.structs import LayerStruct, Member

ALIGNMENT = 64
"""Bytes of a cache line, at whose multiples the workspace and the arrays of a table begin."""


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
            found += [Part.of(layers, every)] if layers else [Part(None, (each,), (each,)) for each in every]
        return found


@dataclass(frozen=True)
class Part:
    """One array, or the arrays of the first of equal layers, which lie a `stride` of bytes apart.

    With `numbers`, the `names` in files have `{}` for that of the layer. `every` is of all layers.
    """

    layers: LayerStruct | None
    places: tuple[Place, ...]
    every: tuple[Place, ...]
    stride: int = 0
    names: tuple[str, ...] = ()
    numbers: range = range(0)

    @classmethod
    def of(cls, layers: LayerStruct, every: Sequence[Place]) -> Part:
        """Describe equal layers by the arrays of all."""
        width = len(every) // layers.count
        columns = ([place.slot.name for place in every[k::width]] for k in range(width))
        names, numbers = patterns(columns) or ((), range(0))
        stride = every[width].offset - every[0].offset
        return cls(layers, tuple(every[:width]), tuple(every), stride, tuple(names), numbers)


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
