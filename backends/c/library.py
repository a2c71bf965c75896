"""Foreign functions of an emitted library by ctypes, and memory for their workspace."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from catgrad.errors import ToolError
from catgrad.types import Array

from .interface import ALIGNMENT, CODES

BAD_INDEX = list(CODES).index("BAD_INDEX")


class Library:
    """The functions of a shared library whose names begin with a prefix, and the memory of their arrays.

    `trailing` are the types of the last arguments, which `run` passes.

    Raises: ToolError if the library does not load
    """

    trailing: ClassVar[Sequence[Any]] = [ctypes.c_void_p]

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

    def on_host(self, array: Any) -> Array:
        """Return an array of these as one of NumPy."""
        result: Array = array
        return result

    def table(self, arrays: Sequence[Any]) -> Any:
        """Return the struct of a table whose members point to these arrays."""
        return struct(map(self.address, arrays))

    def run(self, call: Callable[..., int], name: str, arguments: Iterable[Any], workspace: int) -> None:
        """Call a function, which errors call `name`, with a workspace of so many bytes."""
        code = call(*arguments, self.workspace.at_least(workspace))
        if code:
            raise self.refuse(code, name)

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
        text = self._error_string(code).decode()
        return ToolError(
            "an emitted function must succeed",
            f"{name} returns: {text}",
            "report this as a defect of catgrad",
        )


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
