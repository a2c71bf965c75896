"""Memory of a device: arrays in it, and the workspace of an emitted library."""

from __future__ import annotations

import ctypes
import sys
import weakref
from collections.abc import Callable, Iterable, Sequence
from ctypes import c_char_p, c_int, c_size_t, c_void_p
from functools import cache, partial
from math import prod
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np

from catgrad.errors import ToolError
from catgrad.types import Array, Dtype

from ..c.library import SharedLibrary, address
from ..host.process import Home
from ..host.tables import DeviceTable
from . import dlpack
from .machine import ALIGNMENT

CUDA = 1000
"""Status codes of emitted functions from which on they are those of CUDA."""

LIBRARIES = 2000
"""Status codes from which on they are those of NCCL, and then of cuBLASLt."""

OUT_OF_MEMORY = 2
"""CUDA's code for a device without room."""


class DeviceArray:
    """An array in the memory of a device, which other libraries take by DLPack.

    Its memory is its own, and freed with it, unless it lies at the `place` of one that the `owner` keeps.
    """

    def __init__(
        self, device: Device, shape: Sequence[int], dtype: np.dtype[Any], place: int = 0, owner: object = None
    ) -> None:
        self.device, self.shape, self.dtype = device, tuple(shape), dtype
        self.bytes, self.owner = prod(self.shape) * dtype.itemsize, owner
        self.address = place or device.allocate(self.bytes)
        if not place:
            weakref.finalize(self, device.release, self.address)

    def put(self, array: Array) -> None:
        """Copy an array of the host to it."""
        source = np.ascontiguousarray(array)
        self.device.copy(self.address, address(source), self.bytes)

    def get(self) -> Array:
        """Copy it to an array of the host."""
        array = np.empty(self.shape, self.dtype)
        self.device.copy(address(array), self.address, self.bytes)
        return array

    def copy(self) -> DeviceArray:
        """Copy it to another place."""
        other = DeviceArray(self.device, self.shape, self.dtype)
        self.device.copy(other.address, self.address, self.bytes)
        return other

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device.dlpack_device

    def __dlpack__(self, *, stream: object = None, **versions: Any) -> Any:
        # Whatever computes it is done: functions wait for their results.
        return dlpack.exported(self, self.address, self.shape, self.dtype.name, self.device.dlpack_device)


class Device(SharedLibrary):
    """An emitted library, a stream that it runs on, and memory of the device.

    Calls from several threads take turns.

    Raises: ToolError if the library does not load, or there is no device
    """

    kind_of_table = DeviceTable

    def __init__(
        self, path: Path, prefix: str, is_guarded: bool, is_simulated: bool, calls_library: bool = False
    ) -> None:
        super().__init__(path, prefix)
        self.home = Home()  # a fork cannot use the context of CUDA
        self.is_guarded, self.is_simulated, self.lock = is_guarded, is_simulated, _lock(path)
        self.release = partial(_free, self._library, self.lock)
        said = self._library["cuda_simulator_message" if is_simulated else "catgrad_error"]
        said.restype = c_char_p
        self._message: Callable[[int], bytes] = (lambda code: said()) if is_simulated else said
        number, stream = c_int(), c_void_p()
        self.call("get_device", ctypes.byref(number))
        self.call("new_stream", ctypes.byref(stream))
        self.dlpack_device = (dlpack.CPU if is_simulated else dlpack.GPU, number.value)
        self.stream = stream.value or 0
        weakref.finalize(self, self._library["catgrad_free_stream"], stream)
        self.calls_library = calls_library
        self.last = (*self.new_libraries(), self.stream)
        self.trailing = [c_void_p] * (1 + len(self.last))
        self._workspace: DeviceArray | None = None
        if is_guarded:
            self._clear = self.function("clear_status", [c_void_p, c_void_p])

    def new_libraries(self) -> tuple[int, ...]:
        """Create what cuBLASLt needs, if it is called; return its address. Raises: ToolError"""
        if not self.calls_library:
            return ()
        libraries = c_void_p()
        code = self._library["catgrad_new_libraries"](ctypes.byref(libraries))
        weakref.finalize(self, self._library["catgrad_free_libraries"], libraries)
        self._check(code, "new libraries")
        return (libraries.value or 0,)

    def call(self, name: str, *arguments: object) -> None:
        """Call a function of the runtime. Raises: ToolError if it fails, or in a fork"""
        self.home.require(name.replace("_", " "))
        function = self._library[f"catgrad_{name}"]
        function.restype = c_int
        with self.lock:
            code = function(*(c_void_p(a) if isinstance(a, int) or a is None else a for a in arguments))
            if code:
                raise self.failed(code, name.replace("_", " "))

    def failed(self, code: int, name: str) -> Exception:
        """Return the error for a code of CUDA."""
        said = self._message(code).decode()
        if self.is_simulated:
            must, todo = "CUDA must pass the checks of the simulator", "report this as a defect of catgrad"
        else:
            must, todo = "a GPU must run CUDA", "check `nvidia-smi`, or load with simulate=True"
        return ToolError(must, f"{name} fails: {said}", todo)

    def allocate(self, bytes: int) -> int:
        """Allocate memory; returns its address. Raises: MemoryError if the device has too little"""
        self.home.require("allocate")
        place = c_void_p()
        allocate = self._library["catgrad_allocate"]
        with self.lock:
            code = allocate(ctypes.byref(place), c_size_t(bytes))
            if code == OUT_OF_MEMORY:
                raise MemoryError(
                    f"the device must have {bytes} bytes of memory for an array, but it has less; "
                    "pass smaller arrays, or delete some"
                )
            if code:
                raise self.failed(code, "allocate")
        return place.value or 0

    def copy(self, to: int, source: int, bytes: int) -> None:
        """Copy memory of the device or the host, and wait."""
        self.call("copy", to, source, c_size_t(bytes), self.stream)

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any]) -> DeviceArray:
        """Allocate an array."""
        return DeviceArray(self, shape, dtype)

    def address(self, array: Any) -> int:
        """Return the address of an array's first element."""
        place: int = array.address
        return place

    def has(self, value: object) -> bool:
        """Tell whether an argument is an array of another library in the memory of this device."""
        if isinstance(value, np.ndarray) or not hasattr(value, "__dlpack_device__"):
            return False
        kind, number = value.__dlpack_device__()
        return (int(kind), int(number)) == self.dlpack_device

    def taken(self, value: Any, what: str) -> DeviceArray:
        """Return an array of this device where it lies.

        Raises: ValueError for an array with gaps; TypeError for other elements
        """
        if isinstance(value, DeviceArray):
            return value
        # The producer has our stream wait for whatever computes the array on its own.
        capsule = value.__dlpack__() if self.is_simulated else value.__dlpack__(stream=self.stream)
        found = dlpack.imported(capsule)
        if not found.is_dense:
            raise ValueError(f"{what} must lie row by row in memory, but it does not; pass a contiguous copy")
        dtype = next((d for d in Dtype if dlpack.elements(d.name) == found.elements), None)
        if dtype is None:
            raise TypeError(f"{what} must have a dtype of catgrad, but it is {value.dtype}; convert it")
        array = DeviceArray(self, found.shape, dtype.numpy, found.address, capsule)
        return array.copy() if found.address % ALIGNMENT else array

    def like(self, array: DeviceArray, example: Any) -> Any:
        """Return an array of the device in the kind of an example, if its library takes DLPack."""
        library = sys.modules.get(type(example).__module__.partition(".")[0])
        convert = getattr(library, "from_dlpack", None)
        return convert(array) if convert else array

    def run(self, call: Callable[..., int], name: str, arguments: Iterable[int], workspace: int) -> None:
        """Call a function, and wait for it.

        Raises: IndexError if an index lies outside its array; ToolError for other errors, and in a fork
        """
        self.home.require(name)
        with self.lock:
            place = self._at_least(workspace)
            self._check(call(*arguments, place, *self.last), name)
            status = c_int(0)
            if self.is_guarded:
                self.copy(ctypes.addressof(status), place, ctypes.sizeof(status))
            else:
                self.call("synchronise", self.stream)
            if status.value:
                self._clear(place, self.stream)
                raise self.refuse(status.value, name)

    def _check(self, code: int, name: str) -> None:
        """Raise the error for a status code, unless all is well."""
        if code >= CUDA and (code < LIBRARIES or self.is_simulated):
            raise self.failed(code - CUDA, name)
        if code:
            raise self.refuse(code, name)

    def _at_least(self, bytes: int) -> int:
        """Return the address of a workspace of so many bytes, whose status is clear."""
        if self._workspace is None or self._workspace.bytes < bytes:
            self._workspace = None  # its memory is free before the next is allocated
            self._workspace = DeviceArray(self, (bytes,), np.dtype(np.uint8))
            if self.is_guarded:
                self._clear(self._workspace.address, self.stream)
        return self._workspace.address


def _free(library: ctypes.CDLL, lock: Any, place: int) -> None:
    """Free memory; no finalizer refers to a device, which would live as long as its own workspace."""
    with lock:
        library["catgrad_free"](c_void_p(place))


@cache
def _lock(path: Path) -> Any:
    """Return the lock of a library, which may be loaded more than once."""
    return RLock()
