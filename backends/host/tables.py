"""Tables of persistent arrays, which are assigned in place, and the owner of the three of a model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any, Protocol

import numpy as np

from catgrad.learn.shown import Shown
from catgrad.programs.ports import Role
from catgrad.terms.state import Slot
from catgrad.types import Array, NdArrayType

from .checks import as_in_c


class Table(MutableMapping[str, Any], ABC):
    """Arrays by name, each of a fixed type in a fixed place: what is assigned is copied there."""

    def __init__(self, table: str, slots: Sequence[Slot]) -> None:
        self._table, self._types = table, {slot.name: slot.type for slot in slots}

    @property
    def types(self) -> Mapping[str, NdArrayType]:
        """The types of the arrays by name."""
        return self._types

    @abstractmethod
    def __getitem__(self, name: str) -> Array: ...

    @abstractmethod
    def _put(self, name: str, array: Array) -> None:
        """Copy an array that fits to its place."""

    def __iter__(self) -> Iterator[str]:
        return iter(self._types)

    def __len__(self) -> int:
        return len(self._types)

    def __repr__(self) -> str:
        return repr(dict(self))

    def __or__(self, other: Mapping[str, Any]) -> dict[str, Any]:
        return {**self, **other}

    def __ror__(self, other: Mapping[str, Any]) -> dict[str, Any]:
        return {**other, **self}

    def __delitem__(self, name: str) -> None:
        raise TypeError(f"{self._table}: {name} must not be deleted; assign it another value")

    def __setitem__(self, name: str, value: Any) -> None:
        if name not in self._types:
            raise KeyError(f"{self._table}: a name must be one of {', '.join(self)}, but it is {name!r}")
        self._put(name, self._fitting(name, value))

    def set(self, arrays: Mapping[str, Any]) -> None:
        """Copy arrays for all names; nothing is changed unless all of them fit."""
        fitting = {name: self._fitting(name, arrays[name]) for name in self}
        for name, array in fitting.items():
            self._put(name, array)

    def _fitting(self, name: str, value: Any) -> Array:
        array, type = np.asarray(value), self._types[name]
        if array.shape != type.shape:
            raise ValueError(
                f"{self._table}: {name} must have shape {type.shape}, but it is {array.shape}; reshape it"
            )
        return as_in_c(array, type, f"{self._table}: {name}")

    def __reduce__(self) -> Any:
        # A copy is an ordinary table of its own.
        return dict, (dict(self),)


class ArrayTable(Table):
    """Arrays of this process that an emitted library changes where they are."""

    def __init__(self, table: str, slots: Sequence[Slot], arrays: Sequence[Array]) -> None:
        super().__init__(table, slots)
        self._arrays = {slot.name: array for slot, array in zip(slots, arrays, strict=True)}

    def __getitem__(self, name: str) -> Array:
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

    def __getitem__(self, name: str) -> Array:
        array: Array = self.arrays[name].get()
        array.flags.writeable = False
        return array

    def _put(self, name: str, array: Array) -> None:
        self.arrays[name].put(array)


class Owner(Shown):
    """Parameters, buffers and optimiser state by name."""

    _tables: Mapping[Role, Table]

    @property
    def parameters(self) -> Table:
        """The parameters by name, which each step updates."""
        return self._tables[Role.PARAMETER]

    @parameters.setter
    def parameters(self, arrays: Mapping[str, Any]) -> None:
        self._tables[Role.PARAMETER].set(arrays)

    @property
    def buffers(self) -> Table:
        """The buffers of the model by name."""
        return self._tables[Role.BUFFER]

    @buffers.setter
    def buffers(self, arrays: Mapping[str, Any]) -> None:
        self._tables[Role.BUFFER].set(arrays)

    @property
    def state(self) -> Table:
        """The state of the optimiser by name."""
        return self._tables[Role.STATE]

    @state.setter
    def state(self, arrays: Mapping[str, Any]) -> None:
        self._tables[Role.STATE].set(arrays)
