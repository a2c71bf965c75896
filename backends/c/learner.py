"""A learner whose arrays an emitted library changes in place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np

from catgrad.state import Slot
from catgrad.types import Array

from .bound import Bound, Many
from .checks import as_in_c
from .harness import initialise
from .library import table_of


class Held(MutableMapping[str, Any]):
    """The arrays of a table by name, which stay where they are: what is assigned is copied into them."""

    def __init__(self, table: str, slots: Sequence[Slot], arrays: Sequence[Array]) -> None:
        self._arrays = {slot.name: array for slot, array in zip(slots, arrays, strict=True)}
        self._table, self._types = table, {slot.name: slot.type for slot in slots}

    def __getitem__(self, name: str) -> Array:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __repr__(self) -> str:
        return repr(self._arrays)

    def __or__(self, other: Mapping[str, Any]) -> dict[str, Any]:
        return {**self, **other}

    def __ror__(self, other: Mapping[str, Any]) -> dict[str, Any]:
        return {**other, **self}

    def __delitem__(self, name: str) -> None:
        raise TypeError(f"{self._table}: {name} must stay, for the model has it; assign it another value")

    def __setitem__(self, name: str, value: Any) -> None:
        if name not in self._types:
            raise KeyError(f"{self._table}: a name must be one of {', '.join(self)}, but it is {name!r}")
        np.copyto(self[name], self._fitting(name, value))

    def set(self, arrays: Mapping[str, Any]) -> None:
        """Copy arrays for all names; nothing is changed unless all of them fit."""
        fitting = {name: self._fitting(name, arrays[name]) for name in self}
        for name, array in fitting.items():
            np.copyto(self[name], array)

    def _fitting(self, name: str, value: Any) -> Array:
        array, type = np.asarray(value), self._types[name]
        if array.shape != type.shape:
            raise ValueError(
                f"{self._table}: {name} must have shape {type.shape}, but it is {array.shape}; reshape it"
            )
        return as_in_c(array, type, f"{self._table}: {name}")

    def __reduce__(self) -> Any:
        # A copy is an ordinary table of its own.
        return dict, (self._arrays,)


class Learner:
    """Parameters, buffers and optimiser state by name, and the functions that use and change them."""

    def __init__(self, model: Any, seed: int = 0) -> None:
        self.model = model()
        program, library = model.program, model.library
        [checked] = model.init.wanted.checked([seed])
        first = initialise(library, program, int(checked))
        self._held = {
            table: Held(table, program.tables.get(table, ()), first.get(table, ()))
            for table in ("parameters", "buffers", "state")
        }
        structs = {table: table_of(arrays) for table, arrays in first.items()}
        self._functions = {
            name: Bound(getattr(self.model, name), self._held, structs)
            for name in ("predict", "loss", "grads", "update", "train_step")
        }
        self._step = self._functions["train_step"]
        self._step_many = Many(self.model.train_step, self._held, structs)
        self._structs = structs

    def __deepcopy__(self, memo: Any) -> Learner:
        other = type(self)(type(self.model))
        for table, held in self._held.items():
            other._held[table].set(held)
        return other

    @property
    def parameters(self) -> Held:
        """What training moves along gradients, by name; each step changes these arrays."""
        return self._held["parameters"]

    @parameters.setter
    def parameters(self, arrays: Mapping[str, Any]) -> None:
        self._held["parameters"].set(arrays)

    @property
    def buffers(self) -> Held:
        """What else training changes in the model, by name."""
        return self._held["buffers"]

    @buffers.setter
    def buffers(self, arrays: Mapping[str, Any]) -> None:
        self._held["buffers"].set(arrays)

    @property
    def state(self) -> Held:
        """What the optimiser keeps between steps, by name."""
        return self._held["state"]

    @state.setter
    def state(self, arrays: Mapping[str, Any]) -> None:
        self._held["state"].set(arrays)

    def predict(self, *inputs: Any) -> Any:
        """The model's output; a list if there are several."""
        outputs = self._functions["predict"](*inputs)
        return outputs[0] if len(outputs) == 1 else outputs

    def loss(self, *inputs_and_targets: Any) -> Any:
        """How far the output is from the targets."""
        [loss] = self._functions["loss"](*inputs_and_targets)
        return loss

    def grads(self, *inputs_and_targets: Any) -> tuple[Any, dict[str, Array]]:
        """The loss on one batch and its gradient by name, to be added up and given to `update`."""
        loss, *gradients = self._functions["grads"](*inputs_and_targets)
        return loss, dict(zip(self.parameters, gradients, strict=True))

    def update(self, gradients: Mapping[str, Any]) -> None:
        """Move the parameters by the optimiser, given a gradient for each."""
        self._functions["update"](*(gradients[name] for name in self.parameters))

    def step(self, *inputs_and_targets: Any) -> Any:
        """Train on one batch; returns the loss before the step."""
        return self._step(*inputs_and_targets)[0]

    def step_many(self, *inputs_and_targets: Any) -> Array:
        """Train on one batch after another, each a row of the arrays; returns the loss before each step."""
        losses: Array = self._step_many(*inputs_and_targets)[0]
        return losses
