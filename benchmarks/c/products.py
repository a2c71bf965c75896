"""Matrix products of emitted C, MKL and OpenBLAS, one thread: `python -m benchmarks.c.products`, a minute.

The libraries compute each product in turns, in one process, for 40 rounds; figures are of the best round and
of the median, because what else runs on a core slows some of them more. A product is bound by the peak of the
core in registers, and by reading an array as large as its operands from the cache that holds them.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np
import typer
from catgrad.backends.c.machine import PACKING
from rich.console import Console

from benchmarks import records, tables
from benchmarks.c.kernels import library, pointer
from benchmarks.c.rounds import OURS, aligned, beside, figures, rate, red, rounds_of, row_of
from benchmarks.harness import peer_python, processor
from benchmarks.options import Flags, Keep, Only, is_chosen
from benchmarks.records import Record, Row

COMMAND = "python -m benchmarks.c.products"

LIBRARIES = {
    "MKL": ("mkl", "mkl==2026.2.0", "lib/libmkl_rt.so*", "cblas_sgemm"),
    "OpenBLAS": (
        "openblas",
        "scipy-openblas32==0.3.34.481.3",
        "lib/**/libscipy_openblas.so",
        "scipy_cblas_sgemm",
    ),
}
"""Environment, package, file and function of each library."""

LARGE = """256×256×256 512×512×512 1024×1024×1024 1024×384×1536 1024×1536×384 768×512×128 768×128×512
64×3072×768 64×768×3072 64×2304×768 64×768×768 128×3072×768 64×50257×768"""
SMALL = "64×128×784 16×128×512 16×512×128 16×1024×144 64×64×32 64×10×128 1×128×784 1×784×128"
SHAPES = [
    *((*map(int, text.split("×")), layout) for text in LARGE.split() for layout in ("NN", "NT")),
    *((*map(int, text.split("×")), layout) for text in SMALL.split() for layout in ("NN", "NT")),
    *((n, n, n, "TN") for n in (256, 512, 1024)),
    (512, 128, 768, "TN"),
    (784, 128, 64, "TN"),
    (128, 784, 64, "TN"),
    (10, 128, 64, "TN"),
    (128, 512, 16, "TN"),
]
"""Rows, columns and depth; N is row-major, T column-major."""

PACKED, PEAK, READING = f"{OURS}, packed before", "peak", "reading"
SCRATCH = 131072
LEAST_SECONDS, SMALL_OPERATIONS, PEAK_TURNS = 3e-4, 1e7, 100_000
MOST, SHARE, TIMES_BOUND = 1.05, 0.85, 1.5
"""Goals: time over that of the fastest library, share of the peak from 256³ on, multiple of the bound."""


def libraries() -> Mapping[str, Callable[..., object]]:
    """Load the product of each library that can be installed here, with one thread."""
    os.environ |= {"MKL_THREADING_LAYER": "SEQUENTIAL", "OPENBLAS_NUM_THREADS": "1"}
    found = {}
    for name, (environment, package, file, function) in LIBRARIES.items():
        try:
            folder = peer_python(environment, package).parents[1]
        except (subprocess.CalledProcessError, OSError) as error:
            print(f"{name} is not installed: {error}")
            continue
        [path, *_] = sorted(folder.glob(file))
        found[name] = ctypes.CDLL(str(path))[function]
    return found


class Product:
    """The operands of a product, and its computation by the runtime and by libraries."""

    def __init__(self, code: ctypes.CDLL, m: int, n: int, k: int, layout: str) -> None:
        self.code, self.sizes, self.operations = code, (m, n, k), 2 * m * n * k
        self.a = aligned(k, m).T if layout[0] == "T" else aligned(m, k)
        self.b = aligned(n, k).T if layout[1] == "T" else aligned(k, n)
        self.times = max(1, int(LEAST_SECONDS * 1e11 / self.operations))
        self.results: dict[str, np.ndarray] = {}
        self.sink = aligned(1)

    def functions(self, libraries: Mapping[str, Callable[..., object]]) -> dict[str, Callable[[], object]]:
        """Return the computations, and those that measure the bounds."""
        sizes, packed = map(ctypes.c_ssize_t, self.sizes), self._packed()
        operands = [*sizes, *self._operand(self.a), *self._operand(self.b)]
        scratch = pointer(aligned(packed.size))
        given = {
            OURS: (self.code.product, *operands, self._result(OURS), scratch),
            PACKED: (self.code.packed_product, *operands, pointer(packed), self._result(PACKED), scratch),
        } | {
            name: (self.code.library_product, *operands, self._result(name), function)
            for name, function in libraries.items()
        }
        m, n, k = self.sizes
        arrays = aligned(-(-(m * k + k * n + m * n) // 1024) * 1024)
        given[READING] = self.code.reading, ctypes.c_ssize_t(arrays.size), pointer(arrays), pointer(self.sink)
        calls = {name: partial(function, self.times, *rest) for name, (function, *rest) in given.items()}
        return calls | {PEAK: partial(self.code.peak, PEAK_TURNS, pointer(self.sink))}

    def check(self) -> None:
        """Compare all results with NumPy's. Raises: AssertionError if one is another"""
        expected = self.a @ self.b
        for result in self.results.values():
            np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-3)

    def seconds(self, name: str, taken: Sequence[float]) -> list[float]:
        """Return the seconds of one product from those of a function; at the peak, of its operations."""
        of_peak = PEAK_TURNS * self.code.peak(1, pointer(self.sink)) / self.operations
        return [each / (of_peak if name == PEAK else self.times) for each in taken]

    def _operand(self, x: np.ndarray) -> list[Any]:
        return [pointer(x), *(ctypes.c_ssize_t(stride // 4) for stride in x.strides)]

    def _result(self, name: str) -> Any:
        self.results[name] = aligned(*self.sizes[:2])
        return pointer(self.results[name])

    def _packed(self) -> np.ndarray:
        _, n, k = map(ctypes.c_ssize_t, self.sizes)
        packed = aligned(max(SCRATCH, self.code.packed_size(k, n)))
        self.code.pack(k, n, *self._operand(self.b), pointer(packed))
        return packed


def measured(
    code: ctypes.CDLL, libraries: Mapping[str, Callable[..., object]], m: int, n: int, k: int, layout: str
) -> Row:
    """Measure a product by all."""
    product = Product(code, m, n, k, layout)
    every = rounds_of(product.functions(libraries))
    product.check()
    taken = {name: product.seconds(name, each) for name, each in every.items()}
    bounds = {name: figures(taken.pop(name)) for name in (PEAK, READING)}
    return row_of(f"{m} × {n} × {k} {layout}", taken, sizes=[m, n, k], **bounds)


def share(row: Row) -> float:
    """Return the share of the core's peak."""
    return float(row.facts[PEAK]["seconds"] / row.ours()[OURS])


def times_bound(row: Row) -> float:
    """Return the multiple of the least time that the machine needs."""
    return float(row.ours()[OURS] / max(row.facts[bound]["seconds"] for bound in (PEAK, READING)))


def bound(row: Row) -> str:
    """Compare with the peak, or with the bound of a small product."""
    if 2 * prod(row.facts["sizes"]) < SMALL_OPERATIONS:
        return red(f"{times_bound(row):.2f} × bound", times_bound(row) <= TIMES_BOUND)
    return red(f"{share(row):.0%} of peak", share(row) >= SHARE or min(row.facts["sizes"]) < 256)


COLUMNS = {
    **tables.WHAT,
    **{
        name: rate(name, lambda row, seconds: 2e-9 * prod(row.facts["sizes"]) / seconds, ".0f")
        for name in (OURS, PACKED, *LIBRARIES)
    },
    "beside the best library": beside(lambda ratio: ratio <= MOST),
    "bound": bound,
}
"""GFLOP/s of all, ratios of times, and the bound."""


def main(only: Only = "", keep: Keep = False, flags: Flags = "") -> None:
    """Measure products, print a table, and keep its figures."""
    used = {"gemm_f32", "gemm_packed_f32"}
    code, others = library("products", *flags.split(), used=used, packing=PACKING), libraries()
    names = ["×".join(map(str, shape[:3])) + f" {shape[3]}" for shape in SHAPES]
    rows = [
        measured(code, others, *shape)
        for name, shape in zip(names, SHAPES, strict=True)
        if is_chosen(name, only.replace("x", "×"))
    ]
    title = f"GFLOP/s of the best round and of the median, one thread of {processor()}"
    Console(width=150).print(tables.table(rows, COLUMNS, title))
    if keep:
        path = records.path_of("products", processor())
        versions = records.versions_of(package for _, package, _, _ in LIBRARIES.values())
        Record(f"{COMMAND} --keep", rows, versions=versions).keep(path)


if __name__ == "__main__":
    typer.run(main)
