"""Operands of products of bytes, and calls of the runtime with them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.c.kernels import pointer

SCRATCH_BYTES = 2**20


def operands(dtype: type, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    """Return random bytes in another dtype."""
    rng = np.random.default_rng(0)
    return [rng.integers(-128, 128, shape).astype(dtype) for shape in shapes]


def own(
    function: Callable[..., object], dtype: type, shapes: list[tuple[int, ...]], *sizes: object
) -> tuple[Callable[[], object], np.ndarray]:
    """Return a function of the runtime, and its result; sums of bytes have 32 bits."""
    a, b = operands(dtype, *shapes[:2])
    c = np.empty(shapes[2], np.int32 if dtype is np.int8 else dtype)
    arrays = [a, b, c, room(SCRATCH_BYTES)]  # kept alive by the function
    call = partial(function, *sizes, *map(pointer, arrays))
    call.__dict__["arrays"] = arrays
    return call, c


def room(bytes: int) -> np.ndarray:
    """Allocate memory, aligned."""
    memory = np.empty(bytes + 64, np.int8)
    return memory[-memory.ctypes.data % 64 :]


def packed_before(
    code: ctypes.CDLL, shapes: list[tuple[int, ...]], times: int, *sizes: object
) -> tuple[Callable[[], object], np.ndarray]:
    """Return the product whose second matrix is packed before, and its result."""
    _, n, k, row_major = sizes
    _, b = operands(np.int8, *shapes[:2])
    code.packed_size.restype = ctypes.c_ssize_t
    packed = room(code.packed_size(k, n))
    code.pack(k, n, row_major, pointer(b), pointer(packed))
    call, result = own(code.packed_products_i8, np.int8, shapes, times, *sizes, pointer(packed))
    call.__dict__["packed"] = packed
    return call, result
