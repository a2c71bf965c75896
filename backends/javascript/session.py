"""Emitted modules in one process of Node.js, and their models."""

from __future__ import annotations

import weakref
from base64 import b64decode, b64encode
from collections.abc import Mapping
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from catgrad.dims import numbers
from catgrad.errors import ToolError
from catgrad.programs.ports import Role
from catgrad.terms.state import Slot
from catgrad.tools import Executable
from catgrad.types import Array, Dtype, NdArrayType

from ..host.checks import in_dtype
from ..host.process import JsonProcess

NODE = Executable(name="Node.js", names=("node",), install="install Node.js 18 or newer, from nodejs.org")

_NUMBERS = count()
_ENDED: list[int] = []
"""Models without references. The next request ends them, for garbage may be collected during one."""


@cache
def node() -> JsonProcess:
    """Return the process that runs all modules."""
    NODE.require("running JavaScript")
    return JsonProcess(NODE.name, ["node", Path(__file__).parent / "driver.mjs"])


def ask(what: str, **message: Any) -> Any:
    """Return the answer to a request, which errors call `what`.

    Raises: IndexError for an index outside its array; ToolError for any other error of Node.js
    """
    ended, _ENDED[:] = _ENDED[:], []
    answer = node().exchange(what, {**message, "ended": ended})
    if "error" in answer:
        if answer["kind"] == IndexError.__name__:
            raise IndexError(f"{what}: {answer['message']}")
        said = f"Node.js says: {answer['error']}"
        raise ToolError(f"`{what}` must succeed", said, "report this as an error of catgrad")
    return answer


class Wire:
    """Arrays as Node.js has them: those of int64 may be float64 there."""

    def __init__(self, has_int64: bool) -> None:
        self.has_int64 = has_int64

    def dtype(self, dtype: Dtype) -> Dtype:
        """Return the dtype of the elements of a typed array."""
        return Dtype.float64 if dtype is Dtype.int64 and not self.has_int64 else dtype

    def encoded(self, array: Any, type: NdArrayType) -> list[str]:
        """Encode an array. Raises: TypeError for integers beyond 53 bits where they are float64."""
        dtype = self.dtype(type.dtype)
        elements = np.asarray(array).astype(dtype.numpy)
        if dtype is not type.dtype and np.any(np.abs(elements) > 2.0**53):
            raise TypeError(
                "whole numbers in JavaScript must have 53 bits, but one has more; use smaller ones"
            )
        return [dtype.value, b64encode(elements.tobytes()).decode()]

    def decoded(self, value: Any, type: NdArrayType, sizes: Mapping[str, int] | None = None) -> Array:
        """Decode an array or a number."""
        dtype, shape = self.dtype(type.dtype), numbers(type.substitute(sizes or {}).shape)
        if isinstance(value, dict):
            given: Any = (int if dtype.is_integer else float)(value["number"])
            elements = np.array(given, dtype.numpy)
        else:
            elements = np.frombuffer(b64decode(value), dtype.numpy).reshape(shape)
        return in_dtype(elements, type.dtype) if dtype is not type.dtype else elements.copy()


class Module:
    """An emitted module that Node.js has imported, and what its models are created with."""

    def __init__(self, source: str, wire: Wire, **options: Any) -> None:
        self.number, self.wire, self.options = next(_NUMBERS), wire, options
        ask("load", module=self.number, source=source)

    def model(self, seed: int = 0) -> Model:
        """Create a model. Raises: TypeError for a seed beyond 53 bits."""
        if abs(seed) >= 2**53:
            raise TypeError(f"seed must have 53 bits, but it is {seed}; use a smaller one")
        return Model(self, seed)


class Model:
    """A model in Node.js, which ends with this object."""

    def __init__(self, module: Module, seed: int) -> None:
        self.module, self.number = module, next(_NUMBERS)
        ask("createModel", module=module.number, model=self.number, options={**module.options, "seed": seed})
        weakref.finalize(self, _ENDED.append, self.number)

    def ask(self, what: str, **message: Any) -> Any:
        """Return the answer to a request about this model."""
        return ask(what, model=self.number, **message)


class Place:
    """The place of an array in a table of a model."""

    def __init__(self, model: Model, table: Role, slot: Slot) -> None:
        self.model, self.table, self.slot = model, table, slot

    def get(self) -> Array:
        """Copy the array to this process."""
        arrays = self.model.ask(self.table, read=[self.table])["tables"][self.table]
        return self.model.module.wire.decoded(arrays[self.slot.name], self.slot.type)

    def put(self, array: Array) -> None:
        """Replace the array."""
        encoded = self.model.module.wire.encoded(array, self.slot.type)
        self.model.ask(self.table, tables={self.table: {self.slot.name: encoded}})
