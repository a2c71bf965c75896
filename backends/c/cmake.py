"""CMake: installed packages, found by their configuration, and cached builds of emitted projects."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

from catgrad.errors import ToolError
from catgrad.tools import Executable, Tool, run, version_in

from .cache import cached
from .compiler import COMPILER, CXX, MAX_COMPILE_SECONDS, version

CMAKE = Executable(name="CMake", names=("cmake",), install="pip install cmake, or apt install cmake")

TOOLS = (CMAKE, COMPILER, CXX)
FLAGS = ("CFLAGS", "CXXFLAGS", "LDFLAGS")
"""Variables that CMake reads."""


@dataclass(frozen=True, kw_only=True)
class CMakePackage(Tool):
    """A library with a CMake configuration: where a variable says, in a Python package, or in the system."""

    package: str
    variable: str

    def prefix(self) -> Path | None:
        """Return the folder where it is installed."""
        spec, chosen = find_spec(self.package), os.environ.get(self.variable)
        folders = [Path(spec.origin).parent.parent] if spec and spec.origin else []
        folders += [Path("/usr/local"), Path("/usr"), Path("/opt/homebrew")]
        return next(filter(self._configuration, [Path(chosen)] if chosen else folders), None)

    def _configuration(self, folder: Path) -> Path | None:
        """Return its configuration; Debian's is in a folder for the processor."""
        file = f"cmake/{self.package}/{self.package}-config.cmake"
        return next(
            chain.from_iterable(folder.glob(f"{lib}/{file}") for lib in ("lib", "lib/*", "lib64")), None
        )

    def is_installed(self) -> bool:
        """Look for its configuration."""
        return self.prefix() is not None

    def version(self) -> str:
        """Return the version that its configuration tells."""
        folder = self.prefix()
        found = folder and self._configuration(folder)
        file = found and found.with_name(f"{self.package}-version.cmake")
        return version_in(file.read_text(errors="replace")) if file and file.exists() else ""

    def absence(self) -> str:
        """Return where it is searched."""
        chosen = os.environ.get(self.variable)
        reason = f": ${self.variable} is {chosen!r}, without lib/cmake/{self.package}" if chosen else ""
        return f"{super().absence()}{reason}"


def library(name: str, files: Mapping[str, str], package: CMakePackage) -> Path:
    """Return the shared library of this name that a project defines, built unless it is cached.

    Raises: ToolError if a tool is missing, or it cannot be built; ArtifactError if the cache is not writable
    """
    for tool in (package, *TOOLS):
        tool.require(f"building {name}")

    def build(folder: Path, made: Path) -> None:
        place = ["-B", str(made.parent), f"-DCMAKE_PREFIX_PATH={package.prefix()}"]
        working = [f"-DCMAKE_{language}_COMPILER_WORKS=ON" for language in ("C", "CXX")]
        _run([*CMAKE.command(), "-S", str(folder), *place, *working])
        _run([*CMAKE.command(), "--build", str(made.parent), "--target", name])
        (made.parent / f"lib{name}.so").replace(made)

    tools = [word for tool in TOOLS for word in (*tool.command(), version(tuple(tool.command()), tool))]
    flags = [f"{variable}={os.environ.get(variable, '')}" for variable in FLAGS]
    return cached(name, files, [str(package.prefix()), package.version(), *tools, *flags], build)


def _run(command: list[str]) -> None:
    try:
        done = run(command, MAX_COMPILE_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolError("CMake must run", f"it does not: {error}", "check its installation") from None
    if done.returncode:
        said = f"{done.stdout}\n{done.stderr}".strip().splitlines()
        first = next((line for line in said if "rror" in line), "it says nothing")
        raise ToolError(
            "CMake must build the emitted library", f"it says: {first}", f"run {' '.join(command)}"
        )
