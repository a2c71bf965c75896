"""Memory of a device: arrays in it, and the workspace of an emitted library."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from ctypes import c_char_p, c_int, c_size_t, c_void_p
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from catgrad.errors import ToolError
from catgrad.types import Array

from ..c.library import Library, address

CUDA = 1000
"""Status codes of emitted functions from which on they are those of CUDA."""

HEAD = 64
"""Bytes of a workspace that begin it, with the status."""


class DeviceArray:
    """An array in the memory of a device, which is freed with it."""

    def __init__(self, device: Device, shape: Sequence[int], dtype: np.dtype[Any]) -> None:
        self.device, self.shape, self.dtype = device, tuple(shape), dtype
        self.bytes = prod(self.shape) * dtype.itemsize
        self.address = device.allocate(self.bytes)
        weakref.finalize(self, device.free, self.address)

    def put(self, array: Array) -> None:
        """Copy an array of the host to it."""
        source = np.ascontiguousarray(array)
        self.device.call("upload", self.address, address(source), self.bytes, self.device.stream)
        self.device.synchronise()

    def get(self) -> Array:
        """Copy it to an array of the host."""
        array = np.empty(self.shape, self.dtype)
        self.device.call("download", address(array), self.address, self.bytes, self.device.stream)
        self.device.synchronise()
        return array


class Device(Library):
    """An emitted library with functions for memory of the device, and a stream.

    Raises: ToolError if the library does not load, or there is no device
    """

    def __init__(self, path: Path, prefix: str) -> None:
        super().__init__(path, prefix)
        self._message = self._library["catgrad_error"]
        self._message.restype = c_char_p
        stream = c_void_p()
        self.call("new_stream", ctypes.byref(stream))
        self.stream = stream.value
        self._workspace: DeviceArray | None = None

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the runtime. Raises: ToolError if it fails."""
        function = self._library[f"catgrad_{name}"]
        function.restype = c_int
        code = function(*(c_void_p(a) if isinstance(a, int) or a is None else a for a in arguments))
        if code:
            raise ToolError(
                f"the device must {name.replace('_', ' ')}",
                f"CUDA says: {self._message(code).decode()}",
                "check `nvidia-smi`, or load with simulate=True",
            )

    def allocate(self, bytes: int) -> int:
        """Allocate memory; returns its address."""
        place = c_void_p()
        self.call("allocate", ctypes.byref(place), bytes)
        return place.value or 0

    def free(self, address: int) -> None:
        """Free memory."""
        self._library["catgrad_free"](c_void_p(address))

    def synchronise(self) -> None:
        """Wait until everything on the stream is done."""
        self.call("synchronise", self.stream)

    def at_least(self, bytes: int) -> int:
        """Return the address of a workspace of so many bytes, whose status is clear."""
        if self._workspace is None or self._workspace.bytes < bytes:
            self._workspace = DeviceArray(self, (max(bytes, HEAD),), np.dtype(np.uint8))
            self.call("clear", self._workspace.address, HEAD, self.stream)
        return self._workspace.address

    def finish(self, code: int, name: str, is_guarded: bool) -> None:
        """Wait for a function. Raises: IndexError if an index lay outside its array; ToolError for other errors."""
        if code >= CUDA:
            raise ToolError(
                "an emitted function must be launched",
                f"{name} returns: {self._message(code - CUDA).decode()}",
                "check `nvidia-smi`",
            )
        if code:
            raise self.refuse(code, name)
        self.synchronise()
        if is_guarded and self._workspace is not None:
            status = np.empty((), np.int32)
            self.call("download", address(status), self._workspace.address, status.nbytes, self.stream)
            self.synchronise()
            if status:
                self.call("clear", self._workspace.address, HEAD, self.stream)
                raise self.refuse(int(status), name)


__all__ = ["Device", "DeviceArray", "c_int", "c_size_t"]
