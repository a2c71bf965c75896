"""The system's C compiler, and a cache of the libraries it made, by what they are made of."""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import platformdirs

from catgrad.errors import ToolError
from catgrad.files import write_whole
from catgrad.tools import Executable

# Not -ffast-math: linked in, it makes the whole process flush small numbers to zero.
FLAGS = (
    "-std=c11", "-O3", "-march=native", "-fopenmp-simd", "-ffp-contract=fast", "-fno-math-errno",
    "-fno-trapping-math",
)  # fmt: skip
SHARED = ("-shared", "-fPIC")

COMPILER = Executable(
    name="C compiler",
    names=("cc", "gcc", "clang"),
    variable="CC",
    install="install gcc (apt install gcc, or xcode-select --install), or set $CC",
)

NEEDS = (
    COMPILER,
    Executable(name="make", names=("make",), install="apt install make", use="the emitted Makefile"),
)


def shared_library(name: str, files: Mapping[str, str], source: str, flags: Sequence[str] = ()) -> Path:
    """The library of a source among these files, compiled unless the cache has it.

    Raises: ToolError if there is no compiler, or it fails.
    """
    COMPILER.require("loading emitted C")
    command = COMPILER.command()
    options = [*FLAGS, *flags, *SHARED]
    made_of = [*files, *files.values(), version(tuple(command)), processor(), *command, *options]
    digest = hashlib.sha256("\0".join(made_of).encode()).hexdigest()[:24]
    library = cache_folder() / digest / f"{name}.so"
    if not library.exists():
        _compile(command, options, files, source, library)
    return library


def cache_folder() -> Path:
    """Where libraries are kept: $CATGRAD_CACHE, or the user's cache."""
    chosen = os.environ.get("CATGRAD_CACHE")
    return Path(chosen) if chosen else Path(platformdirs.user_cache_dir("catgrad", appauthor=False)) / "c"


def _compile(
    command: Sequence[str], options: Sequence[str], files: Mapping[str, str], source: str, library: Path
) -> None:
    library.parent.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        write_whole(library.parent / name, [text.encode()])
    # Processes that make the same library at a time each make their own, and the last one stays.
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        made = Path(folder) / library.name
        run = [*command, *options, source, "-o", str(made), "-lm"]
        done = subprocess.run(run, cwd=library.parent, capture_output=True, text=True)
        if done.returncode:
            lines = done.stderr.strip().splitlines()
            error = next((line for line in lines if "error" in line), "\n".join(lines[:3]))
            raise ToolError(
                f"{command[0]} must compile the emitted source",
                f"it says: {error}",
                f"run it in {library.parent}: {shlex.join(run)}",
            )
        os.replace(made, library)


@cache
def version(command: tuple[str, ...]) -> str:
    """What the compiler says it is."""
    return subprocess.run([*command, "--version"], capture_output=True, text=True).stdout


@cache
def processor() -> str:
    """What -march=native depends on: the processor's model and features."""
    machine = f"{sys.platform} {platform.machine()} {platform.processor()}"
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return machine
    told = ("model name", "flags", "Features", "CPU part")
    return "\n".join([machine, *dict.fromkeys(line for line in lines if line.startswith(told))])
