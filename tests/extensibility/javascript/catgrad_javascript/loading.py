"""Emitted modules in Node.js: their functions on arrays, and a learner."""

from __future__ import annotations

from base64 import b64decode, b64encode
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from catgrad.backends.host.checks import Expected, in_dtype
from catgrad.backends.host.learner import PureLearner
from catgrad.backends.host.process import JsonProcess

from catgrad.backend import Artifact
from catgrad.dims import numbers
from catgrad.errors import ToolError
from catgrad.programs.ports import Kind
from catgrad.programs.program import Function
from catgrad.tools import Executable
from catgrad.types import Array, Dtype, NdArrayType, substitute, symbols

from .functions import containers, is_member

NODE = Executable(name="Node.js", names=("node",), install="install Node.js 18 or newer, from nodejs.org")
WIRE = {Dtype.int64: Dtype.float64}
"""The dtypes of typed arrays where they differ."""

_NUMBERS = count()


@cache
def node() -> JsonProcess:
    """Return the process that runs all modules."""
    NODE.require("running JavaScript")
    return JsonProcess(NODE.name, ["node", Path(__file__).parent / "driver.mjs"])


def ask(what: str, **message: Any) -> list[Any]:
    """Call a function, and return its arguments after the call.

    Raises: IndexError for an index outside its array; ToolError for any other error of Node.js
    """
    answer = node().exchange(what, message)
    if "error" in answer:
        if answer["kind"] == IndexError.__name__:
            raise IndexError(f"{what}: {answer['message']}")
        said = f"Node.js says: {answer['error']}"
        raise ToolError(f"`{what}` must succeed", said, "report this as an error of catgrad")
    return answer["passed"]  # type: ignore[no-any-return]


def load(artifact: Artifact) -> Any:
    """Import the emitted module; returns the class `CompiledModel`."""
    program, module = artifact.program, next(_NUMBERS)
    ask("load", module=module, source=artifact.source)
    attributes: dict[str, Any] = {f.name: staticmethod(Entry(module, f)) for f in program.functions}
    if Kind.STEP in program.kinds:
        entries = {kind: attributes[function.name] for kind, function in program.kinds.items()}
        attributes["learner"] = lambda self, seed=0: PureLearner(program, entries, seed)
    return type("CompiledModel", (), attributes)


class Entry:
    """A function of a module on arrays: tables, then other arguments; results are new arrays."""

    def __init__(self, module: int, function: Function) -> None:
        self.module, self.function = module, function
        names = tuple(function.names.get(v, "x") for v in function.arguments)
        self.expected = Expected(function.name, names, function.argument_types, function.requirements)

    def __call__(self, *values: Any) -> list[Array]:
        """Return the results in order."""
        function, arrays = self.function, self.expected.checked(values)
        sizes = self.expected.sizes(arrays)
        results = [np.zeros(numbers(substitute(p.type.shape, sizes))) for p in function.outputs]
        tables: dict[str, dict[str, Any]] = {role: {} for role in containers(function)}
        own: list[Any] = [sizes[name] for name in symbols(function.argument_types)]
        for port, array in zip((*function.inputs, *function.outputs), (*arrays, *results), strict=True):
            if is_member(port):
                tables[port.role].setdefault(port.name, encoded(array, port.type))
            else:
                own.append(encoded(array, port.type))
        passed = ask(function.name, module=self.module, call=function.name, passed=[*tables.values(), *own])
        tables = dict(zip(tables, passed, strict=False))
        rest = iter(passed[len(passed) - sum(not is_member(p) for p in function.outputs) :])
        texts = [tables[p.role][p.name] if is_member(p) else next(rest) for p in function.outputs]
        pairs = zip(texts, function.outputs, results, strict=True)
        return [decoded(text, port.type).reshape(array.shape) for text, port, array in pairs]


def encoded(array: Array, type: NdArrayType) -> list[str]:
    """Encode an array for the driver. Raises: TypeError for integers beyond 53 bits."""
    dtype = WIRE.get(type.dtype, type.dtype)
    elements = array.astype(dtype.numpy)
    if dtype is not type.dtype and np.any(np.abs(elements) > 2.0**53):
        raise TypeError("whole numbers in JavaScript must have 53 bits, but one has more; use smaller ones")
    return [dtype.value, b64encode(elements.tobytes()).decode()]


def decoded(text: str, type: NdArrayType) -> Array:
    """Decode the elements of an array of the driver."""
    elements = np.frombuffer(b64decode(text), WIRE.get(type.dtype, type.dtype).numpy)
    return in_dtype(elements, type.dtype) if type.dtype in WIRE else elements.copy()
