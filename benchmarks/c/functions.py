"""Vector functions of emitted C, libmvec and SLEEF, one thread: `python -m benchmarks.c.functions`, seconds.

They compute functions of 4,096 numbers, or powers of them with exponents between -1 and 3, which the first
cache holds, in turns, in one process; figures are of the best round and of the median. libmvec is part of
glibc, SLEEF is Debian's package `libsleef3`; both have functions of vectors of 8 and of 16 numbers, and
promise 4 units in the last place, and 1.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import typer
from rich.console import Console

from benchmarks import records, tables
from benchmarks.c.kernels import library, pointer
from benchmarks.c.rounds import OURS, aligned, beside, rate, rounds_of, row_of
from benchmarks.harness import processor
from benchmarks.options import Flags, Keep, Only, is_chosen
from benchmarks.records import Row

COMMAND = "python -m benchmarks.c.functions"
POWER = "pow"
NAMES = ("exp", "expm1", "log", "log1p", "tanh", "erf", "sin", "cos", POWER)
VERSIONED = ("sin", "cos")
"""Functions with a version for numbers near 0, which emitted loops select, as the benchmark does."""

LIBRARIES = {
    "libmvec": ("libmvec.so.1", {8: "_ZGVdN8{}_{}f", 16: "_ZGVeN16{}_{}f"}),
    "SLEEF": ("libsleef.so.3", {8: "Sleef_{1}f8_u10", 16: "Sleef_{1}f16_u10"}),
}
"""File and names of the functions of each library, by the numbers in a vector; two operands are `vv`."""

NUMBERS, TIMES, MOST = 4096, 20, 1.2
"""MOST is the goal: the time over that of the fastest library."""


def functions_of_libraries(function: str, lanes: int) -> Mapping[str, Callable[..., object]]:
    """Find a function in those libraries that are installed here."""
    found, operands = {}, "vv" if function == POWER else "v"
    for name, (file, names) in LIBRARIES.items():
        try:
            found[name] = getattr(ctypes.CDLL(file), names[lanes].format(operands, function))
        except (OSError, AttributeError) as error:
            print(f"{name} has no {function} here: {error}")
    return found


def measured(code: ctypes.CDLL, function: str, libraries: Mapping[str, Callable[..., object]]) -> Row:
    """Measure a function by all. Raises: AssertionError if a result differs"""
    x = aligned(NUMBERS)
    x[:] = np.linspace(0.01, 4.1, NUMBERS)
    exponents = aligned(NUMBERS)
    exponents[:] = np.linspace(-1, 3, NUMBERS)[np.arange(NUMBERS) * 7 % NUMBERS]
    size, results = ctypes.c_ssize_t(NUMBERS), {name: aligned(NUMBERS) for name in (OURS, *libraries)}
    given = {name: (TIMES, size, pointer(x), pointer(exponents), pointer(y)) for name, y in results.items()}
    call = code.call_power_of_library if function == POWER else code.call_library
    calls: dict[str, Callable[[], object]] = {OURS: partial(code[f"call_{function}"], *given[OURS])}
    calls |= {name: partial(call, *given[name], each) for name, each in libraries.items()}
    taken = rounds_of(calls)
    for y in results.values():
        np.testing.assert_allclose(y, results[OURS], rtol=1e-6, atol=1e-6)
    return row_of(function, {name: [t / NUMBERS / TIMES for t in each] for name, each in taken.items()})


COLUMNS = {
    **tables.WHAT,
    **{name: rate(name, lambda row, seconds: seconds * 1e9, ".3f") for name in (OURS, *LIBRARIES)},
    "beside the fastest": beside(lambda ratio: ratio <= MOST),
}
"""Nanoseconds of a number by all, and ratios."""


def main(only: Only = "", keep: Keep = False, flags: Flags = "") -> None:
    """Measure functions, print a table, and keep its figures."""
    used = {f"{name}_f32" for name in NAMES}
    code = library("functions", *flags.split(), used=used, names=NAMES, versioned=VERSIONED)
    rows = [
        measured(code, name, functions_of_libraries(name, code.lanes()))
        for name in NAMES
        if is_chosen(name, only)
    ]
    title = f"ns a number, best round and median, vectors of {code.lanes()}, {processor()}"
    Console(width=130).print(tables.table(rows, COLUMNS, title))
    if keep:
        path = records.path_of("functions", processor())
        records.Record(f"{COMMAND} --keep", rows, more={"lanes": code.lanes()}).keep(path)


if __name__ == "__main__":
    typer.run(main)
