"""Matrix products of emitted C, MKL and OpenBLAS, one thread: `python -m benchmarks.c.products`, a minute.

The libraries compute each product in turns, in one process, for 40 rounds; figures are of the best round and
of the median, because what else runs on a core slows some of them more. A product is bound by the peak of the
core in registers, and by reading an array as large as its operands from the cache that holds them.
"""

from __future__ import annotations

import ctypes
import os
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np
import typer
from catgrad.backends.c.machine import PACKING
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks import records
from benchmarks.c.kernels import library, pointer
from benchmarks.harness import peer_python, processor, results_of

Times = dict[str, list[float]]

LIBRARIES = {
    "MKL": ("mkl", "mkl==2026.2.0", "lib/libmkl_rt.so*", "cblas_sgemm"),
    "OpenBLAS": (
        "openblas", "scipy-openblas32==0.3.34.481.3", "lib/**/libscipy_openblas.so", "scipy_cblas_sgemm",
    ),
}  # fmt: skip
"""Environment, package, file and function of each library."""

LARGE = """256×256×256 512×512×512 1024×1024×1024 1024×384×1536 1024×1536×384 768×512×128 768×128×512
64×3072×768 64×768×3072 64×2304×768 64×768×768 128×3072×768 64×50257×768"""
SMALL = "64×128×784 16×128×512 16×512×128 16×1024×144 64×64×32 64×10×128 1×128×784 1×784×128"
SHAPES = [
    *((*map(int, text.split("×")), layout) for text in LARGE.split() for layout in ("NN", "NT")),
    *((*map(int, text.split("×")), layout) for text in SMALL.split() for layout in ("NN", "NT")),
    *((n, n, n, "TN") for n in (256, 512, 1024)), (512, 128, 768, "TN"), (784, 128, 64, "TN"),
    (128, 784, 64, "TN"), (10, 128, 64, "TN"), (128, 512, 16, "TN"),
]  # fmt: skip
"""Rows, columns and depth; N is row-major, T column-major."""

OURS, PACKED, PEAK, READING = "c", "packed", "peak", "reading"
SCRATCH = 131072
ROUNDS, LEAST_SECONDS, SMALL_OPERATIONS, PEAK_TURNS = 40, 3e-4, 1e7, 100_000
ENOUGH, SHARE, TIMES_BOUND = 0.95, 0.85, 1.5
"""Goals: speed beside libraries, share of the peak from 256³ on, and multiple of the bound of small ones."""


@dataclass(frozen=True)
class Row:
    """Seconds of a product by all, and of its bounds: in the best round, and the medians."""

    m: int
    n: int
    k: int
    layout: str
    best: dict[str, float]
    median: dict[str, float]

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Rows, columns and depth."""
        return self.m, self.n, self.k

    @property
    def what(self) -> str:
        """Return the sizes and the layout."""
        return f"{self.m}×{self.n}×{self.k} {self.layout}"

    def rate(self, name: str) -> str:
        """Format operations a second of the best round and of the median."""
        if name not in self.best:
            return "–"
        best, median = (2e-9 * self.m * self.n * self.k / t[name] for t in (self.best, self.median))
        return f"{best:.0f} | {median:.0f}"

    def speed(self, times: dict[str, float]) -> float | None:
        """Compare with the fastest library."""
        others = [times[name] for name in LIBRARIES if name in times]
        return min(others) / times[OURS] if others else None

    @property
    def share(self) -> float:
        """The share of the core's peak."""
        return self.best[PEAK] / self.best[OURS]

    @property
    def times_bound(self) -> float:
        """The multiple of the least time that the machine needs."""
        return self.best[OURS] / max(self.best[PEAK], self.best[READING])


def libraries() -> dict[str, Any]:
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


def aligned(*shape: int) -> np.ndarray:
    """Return a random matrix aligned to a cache line, as in a workspace."""
    size = int(np.prod(shape))
    room = np.random.default_rng(0).normal(size=size + 16).astype(np.float32)
    start = -room.ctypes.data % 64 // 4
    return room[start : start + size].reshape(shape)


def in_turns(functions: dict[str, Callable[[], Any]]) -> Times:
    """Return the processor time of each function in each round."""
    taken: Times = {name: [] for name in functions}
    for function in functions.values():
        function()
    for _ in range(ROUNDS):
        for name, function in functions.items():
            start = time.thread_time()
            function()
            taken[name].append(time.thread_time() - start)
    return taken


class Product:
    """The operands of a product, and its computation by the runtime and by libraries."""

    def __init__(self, code: ctypes.CDLL, m: int, n: int, k: int, layout: str) -> None:
        self.code, self.sizes, self.operations = code, (m, n, k), 2 * m * n * k
        self.a = aligned(k, m).T if layout[0] == "T" else aligned(m, k)
        self.b = aligned(n, k).T if layout[1] == "T" else aligned(k, n)
        self.times = max(1, int(LEAST_SECONDS * 1e11 / self.operations))
        self.results: dict[str, np.ndarray] = {}
        self.sink = aligned(1)

    def functions(self, libraries: dict[str, Any]) -> dict[str, Callable[[], Any]]:
        """Return the computations, and those that measure the bounds."""
        own, at, packed = self._operand(self.a), self._operand(self.b), self._packed()
        sizes = [*map(ctypes.c_ssize_t, self.sizes), *own]
        scratch = aligned(packed.size)
        given = {
            OURS: (self.code.product, *sizes, *at, self._result(OURS), pointer(scratch)),
            PACKED: (
                self.code.packed_product,
                *sizes,
                *at,
                pointer(packed),
                self._result(PACKED),
                pointer(scratch),
            ),
        } | {
            name: (self.code.library_product, *sizes, *at, self._result(name), function)
            for name, function in libraries.items()
        }
        m, n, k = self.sizes
        operands = aligned(-(-(m * k + k * n + m * n) // 1024) * 1024)
        size = ctypes.c_ssize_t(operands.size)
        given[READING] = self.code.reading, size, pointer(operands), pointer(self.sink)
        calls = {name: partial(function, self.times, *rest) for name, (function, *rest) in given.items()}
        return calls | {PEAK: partial(self.code.peak, PEAK_TURNS, pointer(self.sink))}

    def check(self) -> None:
        """Compare all results with NumPy's. Raises: AssertionError if one is another"""
        expected = self.a @ self.b
        for result in self.results.values():
            np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-3)

    def seconds(self, taken: Mapping[str, float]) -> dict[str, float]:
        """Return the seconds of one product from those of the functions; at the peak, of its operations."""
        of_peak = PEAK_TURNS * self.code.peak(1, pointer(self.sink)) / self.operations
        return {name: each / (of_peak if name == PEAK else self.times) for name, each in taken.items()}

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


def measured(code: ctypes.CDLL, libraries: dict[str, Any], m: int, n: int, k: int, layout: str) -> Row:
    """Measure a product by all."""
    product = Product(code, m, n, k, layout)
    taken = in_turns(product.functions(libraries))
    product.check()
    best, median = (
        product.seconds({name: of(each) for name, each in taken.items()}) for of in (min, statistics.median)
    )
    return Row(m, n, k, layout, best, median)


def line(row: Row) -> list[str]:
    """Format a row: operations a second, and goals that are missed in red."""
    speeds = [row.speed(times) for times in (row.best, row.median)]
    beside = [f"[red]{s:.2f}[/]" if s < ENOUGH else f"{s:.2f}" for s in speeds if s is not None]
    is_small = 2 * row.m * row.n * row.k < SMALL_OPERATIONS
    is_missed = row.times_bound > TIMES_BOUND if is_small else row.share < SHARE and min(row.sizes) >= 256
    last = f"{row.times_bound:.2f} × bound" if is_small else f"{row.share:.0%} of peak"
    rates = [row.rate(name) for name in (OURS, PACKED, *LIBRARIES)]
    return [row.what, *rates, " | ".join(beside) or "–", f"[red]{last}[/]" if is_missed else last]


def main(
    only: Annotated[str, typer.Option(help="measure those whose name has this text")] = "",
    keep: Annotated[
        bool, typer.Option(help="write the file of the processor in benchmarks/results/products")
    ] = False,
    flags: Annotated[str, typer.Option(help="more flags of the compiler, as -march=haswell")] = "",
) -> None:
    """Measure products, print a table, and keep its figures."""
    used = {"gemm_f32", "gemm_packed_f32"}
    code, others, rows = library("products", *flags.split(), used=used, packing=PACKING), libraries(), []
    columns = ("product", "catgrad c", "packed before", *LIBRARIES, "beside the best library", "")
    table = Table(
        *columns, box=box.SIMPLE_HEAD,
        title=f"GFLOP/s of the best round and of the median, one thread of {processor()}",
    )  # fmt: skip
    console = Console(width=150)
    for shape in SHAPES:
        if only.replace("x", "×") in f"{shape[0]}×{shape[1]}×{shape[2]} {shape[3]}":
            rows.append(measured(code, others, *shape))
            table.add_row(*line(rows[-1]))
    console.print(table)
    if keep:
        packages = [package for _, package, _, _ in LIBRARIES.values()]
        described = {"command": "python -m benchmarks.c.products --keep", "processor": processor()}
        figures = {**described, "peers": packages, "rows": [asdict(row) for row in rows]}
        records.keep(results_of("products", processor()), figures)


if __name__ == "__main__":
    typer.run(main)
