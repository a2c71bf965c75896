"""The runtime of emitted C, one thread: `OMP_NUM_THREADS=1 python -m benchmarks.kernels`, half a minute.

Compares functions with libm, in nanoseconds for each element, and matrix products with the measured peak of
the machine and with NumPy's library.
"""

from __future__ import annotations

import ctypes
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from catgrad.backends.c import compiler

from benchmarks.harness import ROOT, Report

LIBM = {"exp": "≤ 0.45 ns", "log": "≤ 0.6 ns", "tanh": "≤ 0.4 ns", "erf": "≤ 0.7 ns"}
LIBM |= {"expm1": "", "log1p": "", "sin": "", "cos": ""}
OTHERS = {"sigmoid_f32": ("exp", "≤ 0.55 ns"), "f16_to_f32": ("exp", ""), "f32_to_f16": ("exp", "")}
PRODUCTS = [
    ((64, 128, 784), "NT", 0.85), ((64, 128, 784), "NN", 0.85), ((128, 784, 64), "TN", 0.85),
    ((256, 256, 256), "NN", 0.85), ((256, 256, 256), "NT", 0.85), ((256, 256, 256), "TN", 0.85),
    ((512, 512, 512), "NN", 0.85), ((512, 512, 512), "NT", 0.85), ((512, 512, 512), "TN", 0.85),
    ((1024, 1024, 1024), "NN", 0.82), ((1024, 1024, 1024), "NT", 0.82), ((1024, 1024, 1024), "TN", 0.82),
    ((768, 512, 128), "NT", 0.82), ((768, 512, 128), "NN", 0.82), ((768, 128, 512), "NT", 0.82),
    ((768, 128, 512), "NN", 0.82), ((512, 128, 768), "TN", 0.82), ((64, 3072, 768), "NT", None),
    ((64, 50257, 768), "NT", None), ((64, 64, 32), "NT", 0.65), ((64, 64, 32), "NN", 0.65),
    ((64, 64, 32), "TN", 0.65), ((64, 10, 128), "NT", None), ((10, 128, 64), "TN", None),
    ((16, 1024, 144), "NN", None), ((1, 128, 784), "NN", None), ((1, 128, 784), "NT", None),
]  # fmt: skip
PACKED = 131072


def library() -> ctypes.CDLL:
    """Compile the runtime with the flags of the target."""
    loader = jinja2.FileSystemLoader([ROOT / "templates" / "c", ROOT / "benchmarks"])
    environment = jinja2.Environment(loader=loader, trim_blocks=True, lstrip_blocks=True)
    maps = [f"{name}_f32" for name in LIBM] + list(OTHERS)
    text = environment.get_template("kernels.c.j2").render(
        used={*maps, "gemm_f32"}, maps=maps, peers=[f"{name}f" for name in LIBM]
    )
    folder = ROOT / ".cache" / "kernels"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kernels.c").write_text(text)
    subprocess.run(
        ["gcc", *compiler.FLAGS, "-shared", "-fPIC", "kernels.c", "-o", "kernels.so", "-lm"],
        cwd=folder,
        check=True,
    )
    return ctypes.CDLL(Path(folder / "kernels.so"))


def pointer(array: np.ndarray) -> ctypes.c_void_p:  # noqa: D103
    return array.ctypes.data_as(ctypes.c_void_p)


def least(functions: list[Callable[[], Any]], rounds: int) -> list[float]:
    """Return the minimum time of each, measured alternately, to exclude other load."""
    times = [float("inf")] * len(functions)
    for _ in range(rounds):
        for i, function in enumerate(functions):
            start = time.perf_counter()
            function()
            times[i] = min(times[i], time.perf_counter() - start)
    return times


def maps(report: Report, code: ctypes.CDLL, size: int = 4096, times: int = 20) -> None:
    """Measure functions of 4,096 numbers, which fit into the L1 cache, for each element."""
    x, y = np.linspace(0.01, 4, size, dtype=np.float32), np.empty(size, np.float32)

    def called(name: str) -> Callable[[], Any]:
        function = getattr(code, name)
        return lambda: function(times, ctypes.c_ssize_t(size), pointer(x), pointer(y))

    rows = [(f"{name}_f32", name, goal) for name, goal in LIBM.items()]
    for name, peer, goal in rows + [(name, *row) for name, row in OTHERS.items()]:
        own, libm = least([called(f"call_{name}"), called(f"call_{peer}f")], 30)
        report.add(name, own / size / times, f"libm's {peer}f", libm / size / times, goal)


def aligned(*shape: int) -> np.ndarray:
    """Return a random matrix aligned to a cache line, as in a workspace."""
    size = int(np.prod(shape))
    room = np.random.default_rng(0).normal(size=size + 16).astype(np.float32)
    start = -room.ctypes.data % 64 // 4
    return room[start : start + size].reshape(shape)


def product(code: ctypes.CDLL, m: int, n: int, k: int, layout: str) -> tuple[float, float, float]:
    """Return the seconds of C = A B by the runtime, by NumPy's library, and at peak."""
    a = aligned(k, m).T if layout[0] == "T" else aligned(m, k)
    b = aligned(n, k).T if layout[1] == "T" else aligned(k, n)
    c, expected, packed, result = aligned(m, n), aligned(m, n), aligned(PACKED), aligned(1)
    steps = [s // 4 for s in (*a.strides, *b.strides)]
    m_, n_, k_, a_row, a_column, b_row, b_column = (ctypes.c_ssize_t(v) for v in (m, n, k, *steps))
    arrays = [pointer(a), a_row, a_column, pointer(b), b_row, b_column, pointer(c), pointer(packed)]
    times = max(1, 10**8 // (2 * m * n * k))

    def numpy() -> None:
        for _ in range(times):
            np.matmul(a, b, out=expected)

    own, numpys, peak = least(
        [
            lambda: code.product(times, m_, n_, k_, *arrays),
            numpy,
            lambda: code.peak(200_000, pointer(result)),
        ],
        25,
    )
    np.testing.assert_allclose(c, expected, rtol=1e-3, atol=1e-3)
    operations = code.peak(1, pointer(result)) * 200_000
    return own / times, numpys / times, 2 * m * n * k * peak / operations


def products(report: Report, code: ctypes.CDLL) -> None:
    """Measure products with sizes of small models; N is row-major, T column-major."""
    for (m, n, k), layout, share in PRODUCTS:
        own, numpys, peak = product(code, m, n, k, layout)
        what = f"{m}×{n}×{k} {layout}"
        report.add(what, own, "register peak", peak, f"≤ {1 / share:.2f}" if share else "")
        report.add(what, own, "NumPy's library", numpys, "")


def main() -> None:
    """Run all and print the table."""
    report = Report("kernels", "the runtime of emitted C", "OMP_NUM_THREADS=1 python -m benchmarks.kernels")
    code = library()
    maps(report, code)
    products(report, code)
    report.finish()


if __name__ == "__main__":
    main()
