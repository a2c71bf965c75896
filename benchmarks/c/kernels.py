"""Functions in the runtime of emitted C, one thread: `OMP_NUM_THREADS=1 python -m benchmarks.c.kernels`.

Compares functions with libm, in ns for each element; `benchmarks.c.products` compares matrix products.
"""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from functools import partial

import jinja2
import numpy as np
import typer
from catgrad.backends.c import compiler

from benchmarks.harness import ROOT, in_turns
from benchmarks.options import Keep, Only, is_chosen
from benchmarks.records import OURS, Row
from benchmarks.tables import report

COMMAND = "python -m benchmarks.c.kernels"
GOALS = {"exp": "≤ 0.45 ns", "log": "≤ 0.6 ns", "tanh": "≤ 0.4 ns", "erf": "≤ 0.7 ns"}
FUNCTIONS = {
    **{f"{name}_f32": (name, GOALS.get(name, "")) for name in (*GOALS, "expm1", "log1p", "sin", "cos")},
    "sigmoid_f32": ("exp", "≤ 0.55 ns"),
    "f16_to_f32": ("exp", ""),
    "f32_to_f16": ("exp", ""),
}
"""Functions of the runtime, each with that of libm that it is compared with, and the goal."""


def library(source: str, *flags: str, **variables: object) -> ctypes.CDLL:
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


def maps(code: ctypes.CDLL, only: str, size: int = 4096, times: int = 20) -> list[Row]:
    """Measure functions of 4,096 numbers, which fit into the L1 cache, for each element."""
    x, y = np.linspace(0.01, 4, size, dtype=np.float32), np.empty(size, np.float32)

    def called(name: str) -> Callable[[], object]:
        return partial(code[f"call_{name}"], times, ctypes.c_ssize_t(size), pointer(x), pointer(y))

    rows = []
    for name, (peer, goal) in FUNCTIONS.items():
        if is_chosen(name, only):
            taken = in_turns({OURS: called(name), f"libm's {peer}f": called(f"{peer}f")}, 30)
            figures = {each: {"seconds": min(found) / size / times} for each, found in taken.items()}
            rows.append(Row(name, figures, goal))
    return rows


def main(only: Only = "", keep: Keep = False) -> None:
    """Run all and print the table."""
    peers = dict.fromkeys(f"{peer}f" for peer, _ in FUNCTIONS.values())
    code = library("kernels", used=set(FUNCTIONS), maps=list(FUNCTIONS), peers=list(peers))
    rows = maps(code, only)
    report("kernels", "the runtime of emitted C", f"OMP_NUM_THREADS=1 {COMMAND}", rows, keep)


if __name__ == "__main__":
    typer.run(main)
