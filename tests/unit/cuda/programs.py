"""Build programs of emitted CUDA in tests: for the simulator, and by nvcc."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from catgrad.backends import cuda_simulator as simulator

from tests.unit.c.build import built

PROGRAMS = Path(__file__).parent
HEADERS = Path(simulator.__file__).parent
FLAGS = ("-std=c++17", "-O0", "-fno-strict-aliasing", "-fwrapv")
STRICT = ("-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas")
"""Flags for host programs; nvcc checks the kernels."""

WARNED = "-O1 -Werror all-warnings -Xcompiler -Wall,-Wextra"
"""Flags of nvcc, under which a warning fails."""

NEEDS_NVCC = pytest.mark.skipif(not shutil.which("nvcc"), reason="no nvcc on this machine")


def simulated(folder, name, source, flags=(), out="program"):
    """Link a program of a source, the library in a folder and its files for the simulator.

    The library is compiled once: all programs of a folder must have the same flags.
    """
    made = folder / "simulated"
    made.mkdir(exist_ok=True)
    for path in (*folder.iterdir(), Path(source)):
        if path.suffix in (*simulator.SUFFIXES, ".c", ".cpp"):
            (made / path.name).write_text(simulator.translate(path.read_text()))
    library, files = made / f"{name}.o", made / f"{name}_files.o"
    if not library.exists():
        _compile(made / f"{name}.cu", library, flags)
        built("gcc", "-std=c11", "-c", f"{name}_files.c", "-o", files, cwd=made)
    _compile(made / Path(source).name, made / f"{out}.o", (*STRICT, *flags))
    built("g++", *flags, made / f"{out}.o", library, files, "-o", made / out, cwd=made)
    return made / out


def _compile(source, to, flags):
    command = [*simulator.COMPILER.command(), *FLAGS, *flags, f"-I{HEADERS}"]
    built(*command, "-x", "c++", "-c", source, "-o", to, cwd=to.parent)
