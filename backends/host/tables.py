"""Tables of persistent arrays, which are assigned in place, and the owner of the three of a model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from threading import RLock
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from catgrad.errors import nearest
from catgrad.learn.copies import Copied
from catgrad.programs.ports import Role
from catgrad.terms.state import Slot
from catgrad.types import Array, NdArrayType

from .checks import as_in_c


class Table(MutableMapping[str, Any], ABC):
    """Arrays by name, each of a fixed type in a fixed place: what is assigned is copied there.

    The checks and sentences are those of emitted Python (`templates/python/table.py.j2`).
    """

    def __init__(self, table: str, slots: Sequence[Slot]) -> None:
        self._table, self._types = table, {slot.name: slot.type for slot in slots}
        self.lock = RLock()

    @property
    def types(self) -> Mapping[str, NdArrayType]:
        """The types of the arrays by name."""
        return self._types

    def __getitem__(self, name: str) -> Array:
        require_name(self._table, name, self._types)
        return self._get(name)

    @abstractmethod
    def _get(self, name: str) -> Array:
        """Return the array of this name."""

    @abstractmethod
    def _put(self, name: str, array: Array) -> None:
        """Copy an array that fits to its place."""

    def __iter__(self) -> Iterator[str]:
        return iter(self._types)

    def __len__(self) -> int:
        return len(self._types)

    def __repr__(self) -> str:
        return repr(dict(self))

    def __or__(self, other: Mapping[str, ArrayLike]) -> dict[str, Any]:
        return {**self, **other}

    def __ror__(self, other: Mapping[str, object]) -> dict[str, Any]:
        return {**other, **self}

    def __delitem__(self, name: str) -> None:
        raise TypeError(f"{self._table}: {name} must not be deleted; assign it another value")

    def __setitem__(self, name: str, value: ArrayLike) -> None:
        self.update({name: value})

    def copy(self) -> dict[str, Array]:
        """Return copies of the arrays by name."""
        return {name: np.array(array) for name, array in self.items()}

    def update(self, *arrays: Any, **named: Any) -> None:
        """Assign arrays by name; nothing is changed unless all of them fit."""
        values = dict(*arrays, **named)
        fitting = {name: self._fitting(name, value) for name, value in values.items()}
        with self.lock:
            for name, array in fitting.items():
                self._put(name, array)

    def set(self, arrays: Mapping[str, ArrayLike]) -> None:
        """Assign arrays to all names; nothing is changed unless all of them fit."""
        self.update(zip(self, in_order(self._table, arrays, self), strict=True))

    def _fitting(self, name: str, value: ArrayLike) -> Array:
        require_name(self._table, name, self._types)
        array, type = np.asarray(value), self._types[name]
        if array.shape != type.shape:
            raise ValueError(
                f"{self._table}: {name} must have shape {type.shape}, but it is {array.shape}; reshape it"
            )
        return as_in_c(array, type, f"{self._table}: {name}")

    def __reduce__(self) -> Any:
        # A copy is an ordinary table of its own.
        return dict, (self.copy(),)


def in_order(kind: str, arrays: Mapping[str, ArrayLike], names: Iterable[str]) -> list[Any]:
    """List the arrays of these names in their order. Raises: TypeError, KeyError for other names"""
    if not isinstance(arrays, Mapping):
        raise TypeError(
            f"{kind} must be arrays by name, but it is {type(arrays).__name__}; pass a dictionary"
        )
    for name in arrays:
        require_name(kind, name, names)
    for name in names:
        if name not in arrays:
            raise KeyError(f"{kind}: there must be an array {name}, but it is missing; pass all of them")
    return [arrays[name] for name in names]


def require_name(kind: str, name: str, names: Iterable[str]) -> None:
    """Raise KeyError unless a name is one of these, with the nearest of them."""
    if name not in names:
        hint = nearest(name, names).strip() or "correct the name"
        raise KeyError(f"{kind}: a name must be one of {', '.join(names)}, but it is {name!r}; {hint}")


class ArrayTable(Table):
    """Arrays of this process that an emitted library changes where they are."""

    def __init__(self, table: str, slots: Sequence[Slot], arrays: Sequence[Array]) -> None:
        super().__init__(table, slots)
        self._arrays = {slot.name: array for slot, array in zip(slots, arrays, strict=True)}

    def _get(self, name: str) -> Array:
        return self._arrays[name]

    def _put(self, name: str, array: Array) -> None:
        np.copyto(self._arrays[name], array)


class Place(Protocol):
    """The place of an array in the memory of a device."""

    def get(self) -> Array:
        """Copy the array to the host."""

    def put(self, array: Array) -> None:
        """Replace the array."""


class DeviceTable(Table):
    """Arrays of a device by name; one that is read is a copy, whose elements cannot be assigned."""

    def __init__(self, table: str, slots: Sequence[Slot], places: Sequence[Place]) -> None:
        super().__init__(table, slots)
        self.arrays: dict[str, Any] = {slot.name: place for slot, place in zip(slots, places, strict=True)}

    def _get(self, name: str) -> Array:
        array: Array = self.arrays[name].get()
        array.flags.writeable = False
        return array

    def _put(self, name: str, array: Array) -> None:
        self.arrays[name].put(array)


class Owner(Copied):
    """Parameters, buffers and optimiser state by name; functions on them and assignments take turns."""

    _tables: Mapping[Role, Table]
    lock: Any

    def _own(self, tables: Mapping[Role, Table], lock: object = None) -> None:
        """Keep the tables, under one lock."""
        self._tables, self.lock = tables, lock or RLock()
        for table in tables.values():
            table.lock = self.lock

    @property
    def parameters(self) -> Table:
        """The parameters by name, which each step updates."""
        return self._tables[Role.PARAMETER]

    @parameters.setter
    def parameters(self, arrays: Mapping[str, ArrayLike]) -> None:
        self._tables[Role.PARAMETER].set(arrays)

    @property
    def buffers(self) -> Table:
        """The buffers of the model by name."""
        return self._tables[Role.BUFFER]

    @buffers.setter
    def buffers(self, arrays: Mapping[str, ArrayLike]) -> None:
        self._tables[Role.BUFFER].set(arrays)

    @property
    def state(self) -> Table:
        """The state of the optimiser by name."""
        return self._tables[Role.STATE]

    @state.setter
    def state(self, arrays: Mapping[str, ArrayLike]) -> None:
        self._tables[Role.STATE].set(arrays)
