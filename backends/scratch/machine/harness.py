"""Adapter of sprites: functions on arrays, each call of which runs a custom block in a virtual machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from catgrad.artifact import Artifact
from catgrad.errors import DivergenceError, ShapeError
from catgrad.programs.program import Function, evaluate
from catgrad.types import Array, Dtype, NdArrayType

from ...host.checks import Expected, in_dtype
from .projects import Machine


class Block:
    """A function of the sprite on arrays: those of tables, then its own. Its results are new arrays."""

    def __init__(
        self,
        machine: Machine,
        artifact: Artifact,
        name: str,
        how: Mapping[str, Any],
        tables: Mapping[str, Mapping[str, str]],
    ) -> None:
        self.machine, self.program, self.how = machine, artifact.program, how
        function = self.function = artifact.program[name]
        # A step shows the model's outputs too, but what a function returns is what the reference does.
        self.outputs = function.outputs[: len(artifact.reference[name].outputs)]
        self.__name__, self.__doc__ = function.name, function.doc
        self.slots = [tables[port.name] for port in function.inputs if port.role.is_table]
        names = tuple(function.names.get(v, "x") for v in function.arguments)
        self.expected = Expected(function.name, names, function.argument_types)
        self.tables = tables

    def __call__(self, *values: ArrayLike) -> list[Array]:
        """Call the function; returns the results in its order."""
        inputs = self.expected.checked(values)
        places = [*self.slots, *self.how["takes"]]
        for place, value in zip(places, inputs, strict=True):
            self.put(place, value)
        self.run()
        own = iter(self.how["gives"])
        places = [self.tables[port.name] if port.role.is_table else next(own) for port in self.outputs]
        return [self.get(place, port.type) for place, port in zip(places, self.outputs, strict=True)]

    def run(self) -> None:
        """Run the custom block. Raises: DivergenceError, IndexError or ShapeError, as it reports."""
        self.machine.call(self.how["block"])
        error = str(self.machine.variable("error"))
        if not error:
            return
        kind = str(self.machine.variable("~kind of error"))
        if kind == "index":
            raise IndexError(error)
        raised = DivergenceError if kind == "divergence" else ShapeError
        raise raised(f"{self.how['block']} must run without an error", f"it is: {error}", "pass other values")

    def put(self, place: Mapping[str, str], value: Array) -> None:
        """Write an array to its list or variable."""
        if "variable" in place:
            self.machine.set_variable(place["variable"], value.item())
        else:
            self.machine.set_list(place["list"], value.reshape(-1).astype(np.float64))

    def get(self, place: Mapping[str, str], type: NdArrayType) -> Array:
        """Read an array from its list or variable."""
        if "variable" in place:
            numbers = np.asarray([self.machine.variable(place["variable"])], np.float64)
        else:
            numbers = self.machine.array(place["list"])
        return in_dtype(numbers, type.dtype).reshape(tuple(map(int, type.shape)))


def type_of(place: Mapping[str, Any]) -> NdArrayType:
    """Return the type of an argument or result of a function's own."""
    return NdArrayType(tuple(place["shape"]), Dtype(place["dtype"]))


class Initial:
    """A function from a seed to the initial values of a table, computed here, as sprites have none."""

    def __init__(self, function: Function) -> None:
        self.function = function

    def __call__(self, seed: Any = 0) -> list[Array]:
        """Compute the initial values, determined by the seed."""
        return evaluate(self.function, np.int64(seed))
