"""The system's C compiler, and a content-addressed cache of the libraries it built."""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import platformdirs

from catgrad.errors import ArtifactError, ToolError
from catgrad.files import reason, write_atomically
from catgrad.tools import Executable, run

# Not -ffast-math: linked in, it makes the whole process flush small numbers to zero.
REQUIRED = ("-fopenmp-simd", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math")
"""Flags by which loops are vectorised, and a product and a sum become one instruction."""

FLAGS = ("-std=c11", "-O3", "-march=native", *REQUIRED)
SHARED = ("-shared", "-fPIC")

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
    """A compiler with its flags, and the folder of headers that come with it, if any."""

    language: str
    compiler: Executable
    flags: tuple[str, ...]
    headers: Path | None = None

    def options(self) -> list[str]:
        """Return the flags of every library."""
        return [*self.flags, *([] if self.headers is None else ["-I", str(self.headers)])]

    def header_texts(self) -> list[str]:
        """Return the names and contents of the headers: they are part of what is compiled."""
        paths = [] if self.headers is None else sorted(self.headers.rglob("*.h"))
        return [text for path in paths for text in (path.name, path.read_text("utf-8"))]


C = Toolchain(language="C", compiler=COMPILER, flags=FLAGS)


def shared_library(
    name: str, files: Mapping[str, str], source: str, flags: Sequence[str] = (), toolchain: Toolchain = C
) -> Path:
    """Return the library of a source among these files, compiled unless a valid one is cached.

    Raises: ToolError if there is no compiler, or it fails; ArtifactError if the cache cannot be written
    """
    toolchain.compiler.require(f"loading emitted {toolchain.language}")
    command = toolchain.compiler.command()
    options = [*toolchain.options(), *flags, *SHARED]
    texts = [*files, *files.values(), *toolchain.header_texts()]
    made_of = [*texts, version(tuple(command), toolchain.compiler), processor(), *command, *options]
    folder = cache_folder() / digest("\0".join(made_of).encode(errors="surrogateescape"))
    try:
        return _cached(folder, name) or _compiled(
            [*command, *options, source], files, folder, name, toolchain.compiler
        )
    except OSError as error:
        raise ArtifactError(
            "the cache of compiled libraries must be a writable folder",
            f"{folder.parent} is not: {reason(error)}",
            "set $CATGRAD_CACHE to a writable folder",
        ) from None


def cache_folder() -> Path:
    """Return the folder of cached libraries: $CATGRAD_CACHE, or the user's cache."""
    chosen = os.environ.get("CATGRAD_CACHE")
    folder = Path(chosen) if chosen else Path(platformdirs.user_cache_dir("catgrad", appauthor=False)) / "c"
    return folder.absolute()


def _cached(folder: Path, name: str) -> Path | None:
    """Find the cached library of an entry, unless it is damaged: to load a truncated one ends the process."""
    for library in folder.glob(f"{name}.*.so"):
        if library.name == _file_name(name, library.read_bytes()):
            return library
    return None


def _file_name(name: str, content: bytes) -> str:
    """Name a library after its content hash, by which damage is detected."""
    return f"{name}.{digest(content)}.so"


def digest(content: bytes) -> str:
    """Return the beginning of a content hash, which names files of the cache."""
    return hashlib.sha256(content).hexdigest()[:24]


def _compiled(
    command: Sequence[str], files: Mapping[str, str], folder: Path, name: str, compiler: Executable
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        write_atomically(folder / file, [text.encode()])
    # Concurrent processes each build their own library, and the last one stays.
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        made = Path(temporary) / f"{name}.so"
        done = _run([*command, "-o", str(made), "-lm"], compiler, folder)
        if done.returncode or not made.exists():
            lines = done.stderr.strip().splitlines()
            error = next((line for line in lines if "error" in line), " ".join(lines[:3]))
            raise ToolError(
                f"{command[0]} must compile the emitted source",
                f"it says: {error}"
                if error
                else f"it writes no library and exits with status {done.returncode}",
                f"run it in {folder}: {shlex.join([*command, '-o', made.name, '-lm'])}",
            )
        library = folder / _file_name(name, made.read_bytes())
        os.replace(made, library)
    return library


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


@cache
def processor() -> str:
    """Identify the processor by its model and features, on which -march=native depends."""
    machine = f"{sys.platform} {platform.machine()} {platform.processor()}"
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return machine
    told = ("model name", "flags", "Features", "CPU part")
    return "\n".join([machine, *dict.fromkeys(line for line in lines if line.startswith(told))])
