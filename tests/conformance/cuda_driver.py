"""A driver of emitted CUDA that needs only NumPy, for programs that a sanitizer watches.

python -m tests.conformance.cuda_driver FOLDER trains on the batches in a folder, and writes results there.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Mapping, Sequence
from ctypes import byref, c_int64, c_size_t, c_ssize_t, c_void_p
from pathlib import Path
from typing import Any

import numpy as np

SEED = 3
STORED = {"bfloat16": np.dtype(np.uint16)}
"""Dtypes that NumPy lacks are passed as their bits."""


class Memory:
    """An array in the memory of a device."""

    def __init__(self, driver: Driver, like: np.ndarray) -> None:
        self.driver, self.shape, self.dtype, self.bytes = driver, like.shape, like.dtype, like.nbytes
        self.address = c_void_p()
        driver("catgrad_allocate", byref(self.address), c_size_t(self.bytes))
        self.put(like)

    def put(self, array: np.ndarray) -> None:
        """Copy an array to it."""
        source = np.ascontiguousarray(array)
        self.driver("catgrad_copy", self.address, address(source), c_size_t(self.bytes), self.driver.stream)
        self.driver("catgrad_synchronise", self.driver.stream)

    def get(self) -> np.ndarray:
        """Copy it to an array."""
        array = np.empty(self.shape, self.dtype)
        self.driver("catgrad_copy", address(array), self.address, c_size_t(self.bytes), self.driver.stream)
        self.driver("catgrad_synchronise", self.driver.stream)
        return array


def address(array: np.ndarray) -> c_void_p:
    """Return the address of an array."""
    return c_void_p(array.ctypes.data)


class Driver:
    """An emitted library, its tables, and calls of its functions; memory is never freed."""

    def __init__(self, path: Path | str, manifest: Mapping[str, Any]) -> None:
        self.library, self.manifest, self.prefix = ctypes.CDLL(str(path)), manifest, manifest["prefix"]
        self.stream = c_void_p()
        self("catgrad_new_stream", byref(self.stream))
        self.functions = {f["name"].removeprefix(f"{self.prefix}_"): f for f in manifest["functions"]}
        self.tables = {
            name: {slot["name"]: self.empty(slot, {}) for slot in slots}
            for name, slots in manifest["tables"].items()
        }
        self.initialise()

    def initialise(self) -> None:
        """Fill the tables with initial values."""
        bytes = self.library[f"{self.prefix}_init_workspace_bytes"]
        bytes.restype = c_size_t
        workspace = Memory(self, np.zeros(bytes(), np.uint8))
        every = [self.struct(name) for name in self.tables]
        self(f"{self.prefix}_init", c_int64(SEED), *every, workspace.address, self.stream)

    def __call__(self, name: str, *arguments: object) -> None:
        """Call a function of the library. Raises: AssertionError if it returns an error code."""
        code = self.library[name](*arguments)
        if code:
            raise AssertionError(f"{name} returns {code}: {self.message()}")

    def message(self) -> str:
        """Return the last message of the simulator, or nothing on a device."""
        if not hasattr(self.library, "cuda_simulator_message"):
            return ""
        self.library.cuda_simulator_message.restype = ctypes.c_char_p
        return str(self.library.cuda_simulator_message().decode())

    def empty(self, told: Mapping[str, Any], sizes: Mapping[str, int]) -> Memory:
        """Allocate an array that a manifest describes, and fill it with ones."""
        shape = [sizes.get(size, size) for size in told["shape"]]
        dtype = STORED.get(told["dtype"]) or np.dtype(told["dtype"])
        return Memory(self, np.full(shape, -1).astype(dtype))

    def struct(self, table: str) -> Any:
        """Return the struct that points to the arrays of a table."""
        return (c_void_p * max(1, len(self.tables[table])))(*(m.address for m in self.tables[table].values()))

    def arguments(self, name: str, batch: Sequence[np.ndarray]) -> tuple[list[Any], list[Memory], c_void_p]:
        """Return the arguments of a function but for the stream, its results, and its workspace."""
        told, sizes = self.functions[name], dict[str, int]()
        for argument, array in zip(told["inputs"], batch, strict=False):
            pairs = zip(argument["shape"], array.shape, strict=True)
            sizes |= {size: extent for size, extent in pairs if isinstance(size, str)}
        in_order = [c_ssize_t(sizes[size]) for size in told["sizes"]]
        bytes = self.library[f"{self.prefix}_{name}_workspace_bytes"]
        bytes.restype = c_size_t
        workspace = Memory(self, np.zeros(bytes(*in_order), np.uint8))
        inputs = [Memory(self, array) for array, _ in zip(batch, told["inputs"], strict=False)]
        outputs = [self.empty(output, sizes) for output in told["outputs"]]
        tables = map(self.struct, told["tables"])
        arrays = [m.address for m in (*inputs, *outputs, workspace)]
        return [*tables, *in_order, *arrays], outputs, workspace.address

    def run(self, name: str, *batch: np.ndarray) -> np.ndarray:
        """Call a function on a batch, and return its first result."""
        arguments, outputs, _ = self.arguments(name, batch)
        self(f"{self.prefix}_{name}", *arguments, self.stream)
        return outputs[0].get()

    def run_graph(self, times: int, *batch: np.ndarray) -> np.ndarray:
        """Capture a step on a batch in a graph, launch it several times, and return the last loss."""
        arguments, outputs, _ = self.arguments("step", batch)
        graph = c_void_p()
        self(f"{self.prefix}_graph_create", byref(graph), *arguments, self.stream)
        for _ in range(times):
            self(f"{self.prefix}_graph_launch", graph, self.stream)
        loss = outputs[0].get()
        self(f"{self.prefix}_graph_destroy", graph)
        return loss

    def numbers(self, batches: Sequence[Sequence[np.ndarray]]) -> dict[str, np.ndarray]:
        """Train on batches; returns the losses, then loss and prediction on the first, and the tables."""
        found = {f"step {i}": self.run("step", *batch) for i, batch in enumerate(batches)}
        found |= {"loss": self.run("loss", *batches[0]), "predict": self.run("predict", *batches[0])}
        return {name: np.ravel(array) for name, array in (found | self.state()).items()}

    def state(self) -> dict[str, np.ndarray]:
        """Return the arrays of all tables."""
        tables = self.tables.items()
        return {f"{table} {name}": np.ravel(m.get()) for table, slots in tables for name, m in slots.items()}


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    inputs = np.load(folder / "batches.npz")
    count = 1 + max(int(name.split("_")[0]) for name in inputs)
    batches = [[inputs[f"{i}_{k}"] for k in range(2)] for i in range(count)]
    [library] = folder.glob("*.so")
    driver = Driver(library, json.loads((folder / "manifest.json").read_text()))
    np.savez(folder / "results.npz", **driver.numbers(batches))
