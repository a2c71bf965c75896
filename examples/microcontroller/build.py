"""Build the program for this machine and for a microcontroller, and measure its memory."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from catgrad.errors import ToolError

SOURCES = ("main.c", "iris.c")

# Matrix products without vectors, and no unused functions.
SIZE_FLAGS = (
    "-std=c11", "-ffreestanding", "-fbuiltin", "-DGEMM_SCALAR", "-fno-math-errno", "-fno-trapping-math",
    "-Wno-unknown-pragmas", "-ffunction-sections", "-fdata-sections", "-fno-asynchronous-unwind-tables",
    "-Wl,--gc-sections",
)  # fmt: skip


@dataclass(frozen=True)
class Machine:
    """A machine to build for: a compiler command and options."""

    name: str
    command: tuple[str, ...]
    package: str = ""

    def missing(self) -> str | None:
        """Return the reason why the program cannot be built and measured, or None."""
        if self.package and not importlib.util.find_spec(self.package):
            return f"needs {self.package}: pip install {self.package}"
        lacking = [tool for tool in (self.command[0], "size") if not shutil.which(tool)]
        return f"needs {' and '.join(lacking)}" if lacking else None


@dataclass(frozen=True)
class Size:
    """Sizes in bytes: code with constants, and variables."""

    code: int
    memory: int


def here() -> Machine:
    """Return this machine, without the one function of libm that the program calls."""
    return Machine("this machine", ("gcc", "-Os", "-nostdlib", "-r", "-Wl,-e,main"))


def cortex_m4() -> Machine:
    """Return the microcontroller, with float arithmetic and all functions that the program calls."""
    target = ("-target", "thumb-freestanding-eabihf", "-mcpu=cortex_m4+vfp4d16sp")
    return Machine(
        "ARM Cortex-M4",
        (sys.executable, "-m", "ziglang", "cc", "-Oz", *target, *_headers(), "-Wl,-e,main"),
        "ziglang",
    )


def _headers() -> list[str]:
    """Write headers of libm and libc for ARM, which a machine without an operating system lacks."""
    found = importlib.util.find_spec("ziglang")
    if found is None or found.origin is None:
        return []
    folder = Path(found.origin).parent / "lib/libc/include"
    return ["-isystem", str(folder / "arm-linux-musl"), "-isystem", str(folder / "generic-musl")]


def measured(machine: Machine, folder: Path) -> Size:
    """Build the program for a machine. Raises: ToolError."""
    run(machine.command, *SIZE_FLAGS, *SOURCES, "-o", "program", folder=folder)
    _, numbers = run(["size"], "program", folder=folder).splitlines()
    text, data, bss, *_ = map(int, numbers.split()[:3])
    return Size(text, data + bss)


def frames(folder: Path) -> int:
    """Return an upper bound of the stack in bytes: the sum over all functions, as none is recursive.

    Raises: ToolError
    """
    for source in SOURCES:
        run(["gcc"], "-Os", *SIZE_FLAGS, "-fstack-usage", "-c", source, folder=folder)
    reports = [(folder / source).with_suffix(".su").read_text() for source in SOURCES]
    return sum(int(line.split("\t")[1]) for line in "".join(reports).splitlines())


def right(folder: Path) -> int:
    """Run the program here; return the number of correctly classified flowers. Raises: ToolError."""
    run(["gcc"], "-Os", *SIZE_FLAGS, *SOURCES, "-o", "trainer", "-lm", folder=folder)
    return subprocess.run([str(folder.resolve() / "trainer")]).returncode


def run(command: Sequence[str], *arguments: str, folder: Path) -> str:
    """Run a tool in a folder, and return its output. Raises: ToolError."""
    done = subprocess.run([*command, *arguments], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise ToolError(
            f"{command[0]} must build the program", f"it says: {done.stderr.strip()}", "try another compiler"
        )
    return done.stdout
