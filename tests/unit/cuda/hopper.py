"""Products for sm_90a: their sources with the wrappers of emitted code, and runs in the simulator.

python -m tests.unit.cuda.hopper LIBRARY KIND... runs some of them on small integers.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import numpy as np

from .device import Device

FOLDER = Path(__file__).parent
SIZES = ("m", "n", "k", "a_pitch", "b_pitch", "c_pitch", "stages", "blocks")
KINDS = (
    ("bf16", 128, 0, 0), ("bf16", 128, 0, 1), ("bf16", 128, 1, 0), ("bf16", 128, 1, 1), ("bf16", 256, 0, 1),
    ("bf16", 256, 1, 1), ("bf16", 64, 0, 1), ("f16", 128, 0, 1), ("tf32", 128, 0, 0), ("tf32", 256, 0, 0),
)  # fmt: skip
"""The elements, columns of a tile and majors of A and B of each kind."""


class Sizes(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_int) for name in SIZES)


class Everything:
    """A set of all names."""

    def __contains__(self, name):
        return True


def wrappers(used=None):
    """Render the functions that emitted kernels call, all of them or those that are used."""
    from catgrad.targets import get_backend

    return (
        get_backend("cuda")
        .environment.get_template("hopper.cu.j2")
        .render(used=Everything() if used is None else used)
    )


def sources(*changes):
    """Return the files of these products, after replacing texts that they contain once."""
    names = ("hopper.cu", "hopper_one.cu", "hopper_parts.cu", "hopper_gemm.cuh")
    files = {name: (FOLDER / name).read_text() for name in names} | {"hopper.cuh": wrappers()}
    for old, new in changes:
        [name] = [name for name in ("hopper_gemm.cuh", "hopper.cuh") if files[name].count(old) == 1]
        files[name] = files[name].replace(old, new)
    return files


def aligned(shape, dtype):
    """Allocate an array at a multiple of 64 bytes, of NaN."""
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.full(count + 64, 0xFF, np.uint8)
    first = -raw.ctypes.data % 64
    return raw[first : first + count].view(dtype).reshape(shape)


def stored(x, d, offset=0, pitch=8):
    """Store integers as elements, with rows that begin at a multiple of some, and others behind them."""
    dtype = {"bf16": np.uint16, "f16": np.float16, "tf32": np.float32}[d]
    wide = -(-x.shape[1] // pitch) * pitch
    y = aligned(x.shape[0] * wide + offset, dtype)[offset:].reshape(x.shape[0], wide)
    x = np.ascontiguousarray(x, np.float32)
    y[:, : x.shape[1]] = (x.view(np.uint32) >> 16) if d == "bf16" else x
    return y


def integers(*shape):
    return np.random.default_rng(shape).integers(-4, 5, shape).astype(np.float32)


def multiply(device, kind, m, n, k, stages=2, blocks=2, offset=0, pitch=8):
    """Return the error of a product of small integers, and whether all of it, and nothing else, is exact."""
    d, _, a_major, b_major = KINDS[kind]
    x, y = integers(m, k), integers(k, n)
    a, b = stored(x.T if a_major else x, d, offset, pitch), stored(y if b_major else y.T, d)
    c = aligned((m, -(-n // 4) * 4), np.float32)
    sizes = Sizes(m, n, k, a.shape[1], b.shape[1], c.shape[1], stages, blocks)
    error = device.product(kind, a, b, c, ctypes.byref(sizes))
    return error, np.array_equal(c[:, :n], x @ y) and bool(np.isnan(c[:, n:]).all())


if __name__ == "__main__":
    device = Device(sys.argv[1])
    for kind in map(int, sys.argv[2:]):
        assert multiply(device, kind, 200, 200, 130) == (0, True), device.message
