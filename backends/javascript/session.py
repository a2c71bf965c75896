"""Emitted modules in one process of Node.js, and their models."""

from __future__ import annotations

import weakref
from base64 import b64decode, b64encode
from collections import defaultdict
from collections.abc import Callable, Mapping
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
from ..host.process import JsonProcess, kept

NODE = Executable(name="Node.js", names=("node",), install="install Node.js 18 or newer, from nodejs.org")

DRIVER = Path(__file__).parent / "driver.mjs"

Engine = Callable[[], JsonProcess]
"""Returns a process that runs modules; it starts with the first request."""

_NUMBERS = count()
_ENDED: defaultdict[JsonProcess, list[int]] = defaultdict(list)
"""Models without references, by the process that has them. The next request ends them, for garbage may be
collected during one."""


@kept
def node() -> JsonProcess:
    """Return the process that runs all modules."""
    NODE.require("running JavaScript")
    return JsonProcess(NODE.name, ["node", DRIVER])


def ask(what: str, process: JsonProcess, **message: Any) -> Any:
    """Return the answer of a process to a request, which errors call `what`.

    Raises: IndexError for an index outside its array; ToolError for any other error of Node.js
    """
    ended, _ENDED[process][:] = _ENDED[process][:], []
    answer = process.exchange(what, {**message, "ended": ended})
    if "error" in answer:
        if answer["kind"] == IndexError.__name__:
            raise IndexError(f"{what}: {answer['message']}")
        said = f"Node.js says: {answer['error']}"
        raise ToolError(f"`{what}` must succeed", said, "report this as an error of catgrad")
    return answer


class Wire:
    """Arrays as Node.js has them: those of int64 may be float64 there, of so many bits."""

    def __init__(self, has_int64: bool, bits: int = 53) -> None:
        self.has_int64, self.bits = has_int64, bits
        # A rounded number may exceed 53 bits by one; a negative one of 32 bits is as great as 2^31.
        self.most = 2.0**53 if bits == 53 else 2.0 ** (bits - 1) - 1

    def dtype(self, dtype: Dtype) -> Dtype:
        """Return the dtype of the elements of a typed array."""
        return Dtype.float64 if dtype is Dtype.int64 and not self.has_int64 else dtype

    def encoded(self, array: Array, type: NdArrayType) -> list[str]:
        """Encode an array. Raises: TypeError for integers beyond 53 bits where they are float64."""
        dtype, whole = self.dtype(type.dtype), np.asarray(array)
        elements = whole.astype(dtype.numpy)
        if dtype is not type.dtype and np.any((np.abs(elements) > self.most) | _is_rounded(elements, whole)):
            raise TypeError(
                f"whole numbers in JavaScript must have {self.bits} bits, but one has more; use smaller ones"
            )
        return [dtype.value, b64encode(elements.tobytes()).decode()]

    def decoded(self, value: Any, type: NdArrayType, sizes: Mapping[str, int] | None = None) -> Array:
        """Decode an array or a number."""
        dtype, shape = self.dtype(type.dtype), numbers(type.substitute(sizes or {}).shape)
        if isinstance(value, dict):
            given: object = (int if dtype.is_integer else float)(value["number"])
            elements = np.array(given, dtype.numpy)
        else:
            elements = np.frombuffer(b64decode(value), dtype.numpy).reshape(shape)
        return in_dtype(elements, type.dtype) if dtype is not type.dtype else elements.copy()


def _is_rounded(elements: Array, numbers: Array) -> Array:
    """Tell which numbers of float64 are not the whole ones that they were, such as 2^53 for 2^53 + 1."""
    with np.errstate(invalid="ignore"):
        return np.asarray(elements.astype(numbers.dtype) != numbers)


class Module:
    """An emitted module that Node.js has imported, and what its models are created with.

    It is a source, or the path of a file, which may import those beside it.
    """

    def __init__(self, source: str | Path, wire: Wire, engine: Engine = node, **options: Any) -> None:
        self.number, self.wire, self.process, self.options = next(_NUMBERS), wire, engine(), options
        given = {"file": source.as_uri()} if isinstance(source, Path) else {"source": source}
        ask("load", self.process, module=self.number, **given)

    def model(self, seed: int = 0) -> Model:
        """Create a model. Raises: TypeError for a seed of more bits than numbers have there."""
        if abs(seed) >= 2**53 or (not self.wire.has_int64 and abs(seed) > self.wire.most):
            raise TypeError(f"seed must have {self.wire.bits} bits, but it is {seed}; use a smaller one")
        return Model(self, seed)


class Model:
    """A model in Node.js, which ends with this object."""

    def __init__(self, module: Module, seed: int) -> None:
        self.module, self.number = module, next(_NUMBERS)
        options = {**module.options, "seed": seed}
        ask("createModel", module.process, module=module.number, model=self.number, options=options)
        weakref.finalize(self, _ENDED[module.process].append, self.number)

    def ask(self, what: str, **message: Any) -> Any:
        """Return the answer to a request about this model."""
        return ask(what, self.module.process, model=self.number, **message)


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
