"""Foreign functions of an emitted library by ctypes, and memory for their workspace."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from ctypes import c_int64, c_size_t, c_ssize_t, c_void_p
from pathlib import Path
from typing import Any

import numpy as np

from catgrad.dims import numbers
from catgrad.errors import ToolError
from catgrad.programs.ports import TABLES, Role
from catgrad.programs.program import Program
from catgrad.types import Array

from ..host.tables import ArrayTable, Table
from .interface import CODES
from .layouts import ALIGNMENT

BAD_INDEX = list(CODES).index("BAD_INDEX")


class SharedLibrary:
    """The functions of a shared library whose names begin with a prefix, and the memory of their arrays.

    Functions take pointers to tables, then sizes, pointers to other arrays, and a workspace; `trailing` are
    the types of what follows the arrays.

    One that `forks` may be called in a fork of the process; threads of OpenMP do not exist there.

    Raises: ToolError if the library does not load
    """

    forks = True
    trailing: Sequence[object] = [c_void_p]
    remedy = "report this as a defect of catgrad"
    kind_of_table: Callable[..., Table] = ArrayTable

    def __init__(self, path: Path, prefix: str) -> None:
        self._library, self._prefix = _loaded(path), prefix
        self._error_string = self.function("error_string", [ctypes.c_int], ctypes.c_char_p)
        self.workspace = Workspace()

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Any:
        """Allocate an array."""
        return np.empty(shape, dtype)

    def address(self, array: Any) -> int:
        """Return the address of an array's first element."""
        return address(array)

    def table(self, arrays: Sequence[Array]) -> Any:
        """Return the struct of a table whose members point to these arrays."""
        return struct(map(self.address, arrays))

    def run(self, call: Callable[..., int], name: str, arguments: Iterable[Any], workspace: int) -> None:
        """Call a function, which errors call `name`, with a workspace of so many bytes."""
        code = call(*arguments, *self.ending(workspace))
        if code:
            raise self.refuse(code, name)

    def ending(self, workspace: int) -> tuple[Any, ...]:
        """Return the last arguments of a function that takes a workspace of so many bytes, if any."""
        return (self.workspace.at_least(workspace),) if self.trailing else ()

    def entry_point(self, name: str, tables: int, sizes: int, arrays: int) -> Any:
        """Look up a function with so many arguments of each kind."""
        pointers, numbers = [c_void_p] * (tables + arrays), [c_ssize_t] * sizes
        return self.function(name, [*pointers[:tables], *numbers, *pointers[tables:], *self.trailing])

    def workspace_bytes(self, name: str, sizes: int) -> Callable[..., int]:
        """Return the function from sizes to the bytes of a function's workspace, if it takes any."""
        if not self.trailing:
            return lambda *sizes: 0
        found: Callable[..., int] = self.function(f"{name}_workspace_bytes", [c_ssize_t] * sizes, c_size_t)
        return found

    def tables(self, program: Program, seed: int) -> Mapping[Role, Table]:
        """Create the tables of a program, with their initial values."""
        slots = {role: program.tables.get(role, ()) for role in TABLES}
        arrays = {
            role: [self.empty(numbers(slot.type.shape), slot.type.dtype.numpy) for slot in slots[role]]
            for role in TABLES
        }
        structs = [self.table(arrays[role]) for role in TABLES if slots[role]]
        if structs:
            call = self.function("init", [c_int64, *[c_void_p] * len(structs), *self.trailing])
            self.run(call, "init", [seed, *structs], self.workspace_bytes("init", 0)())
        return {role: self.kind_of_table(role, slots[role], arrays[role]) for role in TABLES}

    def function(self, name: str, takes: Sequence[Any], gives: Any = ctypes.c_int) -> Any:
        """Look up a function by its name without the prefix, with the types of its arguments and result."""
        found = self._library[f"{self._prefix}_{name}"]
        found.argtypes, found.restype = list(takes), gives
        return found

    def refuse(self, code: int, name: str) -> Exception:
        """Return the error for a status code."""
        if code == BAD_INDEX:
            return IndexError(
                f"{name}: an index must lie inside its array, but one lies outside; check the indices"
            )
        return ToolError(
            "an emitted function must succeed", f"{name} returns: {self.meaning(code)}", self.remedy
        )

    def meaning(self, code: int) -> str:
        """Return the text of a status code."""
        text: str = self._error_string(code).decode()
        return text


def _loaded(path: Path) -> ctypes.CDLL:
    """Load a library. Raises: ToolError if the system does not, as from a disk without programs."""
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise ToolError(
            "a compiled library must load",
            f"{error}",
            "set $CATGRAD_CACHE to a folder from which programs can run",
        ) from None


class Workspace(threading.local):
    """Thread-local memory, which grows to the largest size that was requested."""

    bytes = -1
    address = 0
    memory: Array

    def at_least(self, bytes: int) -> int:
        """Return the address of `bytes` bytes; their contents may be lost.

        Raises: MemoryError if there is no room for them
        """
        if bytes > self.bytes:
            self.memory = aligned_bytes(bytes)
            self.bytes, self.address = bytes, address(self.memory)
        return self.address


def aligned_bytes(count: int) -> Array:
    """Allocate `count` bytes, aligned."""
    try:
        memory = np.empty(count + ALIGNMENT, np.uint8)
    except (MemoryError, ValueError):  # NumPy raises ValueError for sizes beyond any array
        raise MemoryError(
            f"the workspace must have {count} bytes, but there is no room for it; pass smaller arrays"
        ) from None
    start = -address(memory) % ALIGNMENT
    return memory[start : start + count]


def address(array: Any) -> int:
    """Return the address of an array's first element."""
    try:
        # This costs a quarter of the other, which is most of a call.
        return ctypes.addressof(ctypes.c_char.from_buffer(array))
    except (TypeError, ValueError):  # read-only, empty, or of a dtype that buffers cannot have
        found: int = array.__array_interface__["data"][0]
        return found


def table_of(arrays: Sequence[Array]) -> Any:
    """Return the struct of a table whose members point to these arrays."""
    return struct(map(address, arrays))


def struct(addresses: Iterable[int]) -> Any:
    """Return a struct of pointers, which has one at least."""
    members = list(addresses) or [0]
    return (ctypes.c_void_p * len(members))(*members)
