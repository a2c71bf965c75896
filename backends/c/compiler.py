"""The system's C compiler, and its libraries of emitted code."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from catgrad.errors import ToolError
from catgrad.paths import reason
from catgrad.tools import Executable, run

from .cache import cached

# Not -ffast-math: linked in, it makes the whole process flush small numbers to zero.
REQUIRED = ("-fopenmp-simd", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math")
"""Flags by which loops are vectorised, and a product and a sum become one instruction."""

FLAGS = ("-std=c11", "-O3", "-march=native", *REQUIRED)

EXACT_FLAGS = ("-std=c11", "-O2", "-ffp-contract=off", "-fno-math-errno", "-DGEMM_SCALAR")
"""Flags by which every operation is rounded by itself, in the order of the source, by any compiler."""

MAX_COMPILE_SECONDS = 1800.0
"""Seconds after which a compiler is killed."""

COMPILER = Executable(
    name="C compiler",
    names=("cc", "gcc", "clang"),
    variable="CC",
    install="install gcc (apt install gcc, or xcode-select --install), or set $CC",
)

CXX = Executable(
    name="C++ compiler",
    names=("c++", "g++", "clang++"),
    variable="CXX",
    install="install g++ (apt install g++), or set $CXX",
)

NEEDS = (
    COMPILER,
    Executable(name="make", names=("make",), install="apt install make", use="the emitted Makefile"),
)


@dataclass(frozen=True, kw_only=True)
class Toolchain:
    """A compiler with its flags, those of a library, and the folder of headers that come with it, if any."""

    language: str
    compiler: Executable
    flags: tuple[str, ...]
    shared: tuple[str, ...] = ("-shared", "-fPIC")
    headers: Path | None = None

    def options(self) -> list[str]:
        """Return the flags of every library."""
        return [*self.flags, *([] if self.headers is None else ["-I", str(self.headers)])]

    def header_texts(self) -> list[str]:
        """Return the names and contents of the headers: they are part of what is compiled."""
        paths = [] if self.headers is None else sorted(self.headers.rglob("*.h"))
        return [text for path in paths for text in (path.name, path.read_text("utf-8"))]


C = Toolchain(language="C", compiler=COMPILER, flags=FLAGS)
EXACT = Toolchain(language="C", compiler=COMPILER, flags=EXACT_FLAGS)


def shared_library(
    name: str, files: Mapping[str, str], source: str, flags: Sequence[str] = (), toolchain: Toolchain = C
) -> Path:
    """Return the library of a source among these files, compiled unless a valid one is cached.

    Raises: ToolError if there is no compiler, or it fails; ArtifactError if the cache cannot be written
    """
    compiler = toolchain.compiler
    compiler.require(f"loading emitted {toolchain.language}")
    command = [*compiler.command(), *toolchain.options(), *flags, *toolchain.shared, source]
    made_by = [*toolchain.header_texts(), version(tuple(compiler.command()), compiler), *command]
    return cached(name, files, made_by, partial(_compile, command, compiler))


def _compile(command: Sequence[str], compiler: Executable, folder: Path, library: Path) -> None:
    done = _run([*command, "-o", str(library), "-lm"], compiler, folder)
    if done.returncode or not library.exists():
        lines = done.stderr.strip().splitlines()
        error = next((line for line in lines if "error" in line), " ".join(lines[:3]))
        raise ToolError(
            f"{command[0]} must compile the emitted source",
            f"it says: {error}" if error else f"it writes no library and exits with status {done.returncode}",
            f"run it in {folder}: {shlex.join([*command, '-o', library.name, '-lm'])}",
        )


@cache
def version(command: tuple[str, ...], compiler: Executable = COMPILER) -> str:
    """Ask the compiler for its version."""
    return _run([*command, "--version"], compiler).stdout


def _run(
    command: Sequence[str], compiler: Executable, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a compiler. Raises: ToolError if it is no program, or does not end."""
    try:
        return run(command, MAX_COMPILE_SECONDS, cwd=folder)
    except subprocess.TimeoutExpired:
        raise ToolError(
            f"the {compiler.name} must end within {MAX_COMPILE_SECONDS:g} seconds",
            f"{command[0]} did not, and was killed",
            f"set ${compiler.variable} to another compiler, or make the model smaller",
        ) from None
    except OSError as error:
        raise ToolError(
            f"the {compiler.name} must be an executable program",
            f"{command[0]} is not: {reason(error)}",
            f"set ${compiler.variable}",
        ) from None
