"""Vector functions of emitted C, libmvec and SLEEF, one thread: `python -m benchmarks.c.functions`, seconds.

They compute functions of 4,096 numbers, or powers of them with exponents between -1 and 3, which the first
cache holds, in turns, in one process; figures are of the best round and of the median. libmvec is part of
glibc, SLEEF is Debian's package `libsleef3`; both have functions of vectors of 8 and of 16 numbers, and
promise 4 units in the last place, and 1.
"""

from __future__ import annotations

import ctypes
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np
import typer
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks import records
from benchmarks.c.kernels import library, pointer
from benchmarks.c.products import aligned, in_turns
from benchmarks.harness import processor, results_of

POWER = "pow"
NAMES = ("exp", "expm1", "log", "log1p", "tanh", "erf", "sin", "cos", POWER)
VERSIONED = ("sin", "cos")
"""Functions with a version for numbers near 0, which emitted loops select, as the benchmark does."""

LIBRARIES = {
    "libmvec": ("libmvec.so.1", {8: "_ZGVdN8{}_{}f", 16: "_ZGVeN16{}_{}f"}),
    "SLEEF": ("libsleef.so.3", {8: "Sleef_{1}f8_u10", 16: "Sleef_{1}f16_u10"}),
}
"""File and names of the functions of each library, by the numbers in a vector; two operands are `vv`."""

OURS, NUMBERS, TIMES, MOST = "c", 4096, 20, 1.2
"""MOST is the goal: the time over that of the fastest library."""


@dataclass(frozen=True)
class Row:
    """Nanoseconds for each number by all: in the best round, and the medians."""

    function: str
    best: dict[str, float]
    median: dict[str, float]

    def time(self, name: str) -> str:
        """Format the times of one."""
        return f"{self.best[name]:.3f} | {self.median[name]:.3f}" if name in self.best else "–"

    @property
    def ratios(self) -> list[float]:
        """The times over those of the fastest library."""
        both = [
            (times[OURS], [t for name, t in times.items() if name != OURS])
            for times in (self.best, self.median)
        ]
        return [ours / min(others) for ours, others in both if others]


def functions_of_libraries(function: str, lanes: int) -> dict[str, Any]:
    """Find a function in those libraries that are installed here."""
    found, operands = {}, "vv" if function == POWER else "v"
    for name, (file, names) in LIBRARIES.items():
        try:
            found[name] = getattr(ctypes.CDLL(file), names[lanes].format(operands, function))
        except (OSError, AttributeError) as error:
            print(f"{name} has no {function} here: {error}")
    return found


def measured(code: ctypes.CDLL, function: str, libraries: dict[str, Any]) -> Row:
    """Measure a function by all. Raises: AssertionError if a result differs"""
    x = aligned(NUMBERS)
    x[:] = np.linspace(0.01, 4.1, NUMBERS)
    exponents = aligned(NUMBERS)
    exponents[:] = np.linspace(-1, 3, NUMBERS)[np.arange(NUMBERS) * 7 % NUMBERS]
    size, results = ctypes.c_ssize_t(NUMBERS), {name: aligned(NUMBERS) for name in (OURS, *libraries)}
    given = {name: (TIMES, size, pointer(x), pointer(exponents), pointer(y)) for name, y in results.items()}
    call = code.call_power_of_library if function == POWER else code.call_library
    calls: dict[str, Callable[[], Any]] = {
        name: partial(call, *given[name], each) for name, each in libraries.items()
    }
    calls[OURS] = partial(code[f"call_{function}"], *given[OURS])
    taken = in_turns(calls)
    for y in results.values():
        np.testing.assert_allclose(y, results[OURS], rtol=1e-6, atol=1e-6)
    best, median = (
        {name: of(each) * 1e9 / NUMBERS / TIMES for name, each in taken.items()}
        for of in (min, statistics.median)
    )
    return Row(function, best, median)


def line(row: Row) -> list[str]:
    """Format a row: times, and ratios above the goal in red."""
    ratios = [f"[red]{r:.2f}[/]" if r > MOST else f"{r:.2f}" for r in row.ratios]
    return [row.function, *(row.time(name) for name in (OURS, *LIBRARIES)), " | ".join(ratios) or "–"]


def main(
    only: Annotated[str, typer.Option(help="measure those whose name has this text")] = "",
    keep: Annotated[
        bool, typer.Option(help="write the file of the processor in benchmarks/results/functions")
    ] = False,
    flags: Annotated[str, typer.Option(help="more flags of the compiler, as -march=haswell")] = "",
) -> None:
    """Measure functions, print a table, and keep its figures."""
    used = {f"{name}_f32" for name in NAMES}
    code = library("functions", *flags.split(), used=used, names=NAMES, versioned=VERSIONED)
    rows = [
        measured(code, name, functions_of_libraries(name, code.lanes())) for name in NAMES if only in name
    ]
    table = Table(
        "function", "catgrad c", *LIBRARIES, "beside the fastest", box=box.SIMPLE_HEAD,
        title=f"ns a number, best round and median, vectors of {code.lanes()}, {processor()}",
    )  # fmt: skip
    for row in rows:
        table.add_row(*line(row))
    Console(width=130).print(table)
    if keep:
        described = {"command": "python -m benchmarks.c.functions --keep", "processor": processor()}
        figures = {**described, "lanes": code.lanes(), "rows": [asdict(row) for row in rows]}
        records.keep(results_of("functions", processor()), figures)


if __name__ == "__main__":
    typer.run(main)
