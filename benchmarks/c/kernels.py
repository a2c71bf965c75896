"""Functions in the runtime of emitted C, one thread: `OMP_NUM_THREADS=1 python -m benchmarks.c.kernels`.

Compares functions with libm, in ns for each element; `benchmarks.c.products` compares matrix products.
"""

from __future__ import annotations

import ctypes
import subprocess
import time
from collections.abc import Callable
from typing import Any

import jinja2
import numpy as np
from catgrad.backends.c import compiler

from benchmarks.harness import ROOT, Report

LIBM = {"exp": "≤ 0.45 ns", "log": "≤ 0.6 ns", "tanh": "≤ 0.4 ns", "erf": "≤ 0.7 ns"}
LIBM |= {"expm1": "", "log1p": "", "sin": "", "cos": ""}
OTHERS = {"sigmoid_f32": ("exp", "≤ 0.55 ns"), "f16_to_f32": ("exp", ""), "f32_to_f16": ("exp", "")}


def library(source: str, *flags: str, **variables: Any) -> ctypes.CDLL:
    """Compile a template of this folder, which includes parts of the runtime, with the target's flags."""
    loader = jinja2.FileSystemLoader([ROOT / "templates" / "c", ROOT / "benchmarks" / "c"])
    environment = jinja2.Environment(loader=loader, trim_blocks=True, lstrip_blocks=True)
    folder = ROOT / ".cache" / "kernels"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{source}.c").write_text(environment.get_template(f"{source}.c.j2").render(variables))
    made = folder / f"{source}.so"
    command = ["gcc", *compiler.FLAGS, *flags, "-shared", "-fPIC", f"{source}.c", "-o", made, "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    return ctypes.CDLL(made)


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


def main() -> None:
    """Run all and print the table."""
    report = Report("kernels", "the runtime of emitted C", "OMP_NUM_THREADS=1 python -m benchmarks.c.kernels")
    names = [f"{name}_f32" for name in LIBM] + list(OTHERS)
    maps(report, library("kernels", used=set(names), maps=names, peers=[f"{name}f" for name in LIBM]))
    report.finish()


if __name__ == "__main__":
    main()
