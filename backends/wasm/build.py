"""Clang for WebAssembly, from the package ziglang."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

from catgrad.artifact import Artifact
from catgrad.errors import ToolError
from catgrad.programs.program import Program
from catgrad.tools import Package, run

from ..c.cache import cached
from ..c.compiler import EXACT_FLAGS, MAX_COMPILE_SECONDS
from ..c.interface import prefix
from ..c.loading import sources

ZIG = Package(name="ziglang", module="ziglang", install="pip install ziglang==0.14.1")

ROUNDING = ("-fopenmp-simd", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math")
"""Flags by which loops are vectorised, and each product and each sum is rounded."""

PAGE_BYTES = 2**16

MACHINE = (
    *("-target", "wasm32-wasi", "-mexec-model=reactor"),
    *("-Wl,--no-entry", "-Wl,--strip-all", "-Wl,--export=__heap_base"),
)
FLAGS = (*MACHINE, "-std=c11", "-O3", "-msimd128", "-DGEMM_HEIGHT=4", *ROUNDING)
"""Tiles of products have 4 rows, whose sums fit the registers that engines leave of 16."""
EXACT = (*MACHINE, "-msimd128", *EXACT_FLAGS)  # ziglang builds a standard library for each set of features

MAX_THREADS = 16
"""The most threads of a model; the workspace has scratch memory for so many."""

INITIAL_PAGES, MAX_PAGES = 2**10, 2**16 - 1
"""Pages of 64 KiB of a shared memory, which must be known before a library is: it has a stack of 16 MiB."""

THREADED = (
    *("-fopenmp", "-I.", f"-DTHREADS={MAX_THREADS}", "-matomics", "-mbulk-memory"),
    *("-Wl,--import-memory,--export-memory,--shared-memory", "-Wl,--import-symbols", "-Wl,--export-table"),
    *(f"-Wl,--initial-memory={INITIAL_PAGES * PAGE_BYTES},--max-memory={MAX_PAGES * PAGE_BYTES}",),
    "-Wl,--export=__stack_pointer",
)
"""Flags by which threads share a memory; functions of OpenMP are imported."""

UNVECTORISED = ("-mllvm", "-force-vector-width=1")
"""Flags by which `-fopenmp` leaves sums in the order of the source."""


def flags(openmp: bool, exact: bool = False) -> tuple[str, ...]:
    """Return the flags of a library with threads or without, for speed or in `exact` arithmetic."""
    threads = (*THREADED, *(UNVECTORISED if exact else ())) if openmp else ()
    return (*(EXACT if exact else FLAGS), *threads)


def exports(program: Program) -> list[str]:
    """Return the flags by which a library exports the functions of a program."""
    own = [f.name for f in program.functions if not f.kind.is_initial]
    own += ["init"] if any(f.kind.is_initial and f.changes for f in program.functions) else []
    return [f"-Wl,--export={prefix(program)}_{name}{end}" for name in own for end in ("", "_workspace_bytes")]


def modules(program: Program) -> list[str]:
    """Return the names of the modules with threads: the main one, the threads, and their worker."""
    return [f"{program.name}{end}.mjs" for end in ("", "_threads", "_worker")]


def library(artifact: Artifact, exact: bool = False) -> Path:
    """Return the library of an artifact, compiled unless a valid one is cached.

    It is compiled for speed, or in `exact` arithmetic. The modules of one with threads lie beside it.

    Raises: ToolError if there is no compiler, or it fails; ArtifactError if the cache cannot be written
    """
    ZIG.require("building WebAssembly")
    name = artifact.program.name
    openmp = artifact.backend.options.openmp
    threads = ["omp.h", *modules(artifact.program)] if openmp else []
    needed = sources(artifact, ".c", ".h", "_runtime.h") | {file: artifact.text(file) for file in threads}
    command = [
        sys.executable,
        "-m",
        "ziglang",
        "cc",
        *flags(openmp, exact),
        *exports(artifact.program),
        f"{name}.c",
    ]
    return cached(name, needed, [ZIG.version(), *command], partial(_compile, command))


def _compile(command: list[str], folder: Path, made: Path) -> None:
    try:
        done = run([*command, "-o", str(made), "-lm"], MAX_COMPILE_SECONDS, cwd=folder)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolError("ziglang must run", f"it does not: {error}", "check its installation") from None
    if done.returncode or not made.exists():
        lines = done.stderr.strip().splitlines()
        error_line = next((line for line in lines if "error" in line), " ".join(lines[:3]))
        raise ToolError(
            "ziglang must compile the emitted source", f"it says: {error_line}", f"run make in {folder}"
        )
