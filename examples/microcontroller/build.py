"""Build the program for this machine and for a microcontroller, and measure its memory."""

from __future__ import annotations

import subprocess
from pathlib import Path

from catgrad.backends.c import cross
from catgrad.backends.c.cross import SIZE_FLAGS, Machine, Sizes

from catgrad.tools import Executable

SOURCES = ("main.c", "iris.c")

GCC = Executable(name="GCC", names=("gcc",), install="apt install gcc")


def here() -> Machine:
    """Return this machine, without the one function of libm that the program calls."""
    return Machine("this machine", ("gcc", "-Os", "-nostdlib", "-r"), GCC)


def measured(machine: Machine, folder: Path) -> Sizes:
    """Build the program for a machine. Raises: ToolError."""
    return cross.linked(machine, SOURCES, ["main"], folder)


def stack(machine: Machine, folder: Path) -> int | None:
    """Return an upper bound of the stack in bytes, without that of libm. Raises: ToolError."""
    return cross.stacks(machine, SOURCES, ["main"], folder)["main"]


def right(folder: Path) -> int:
    """Run the program here; return the number of correctly classified flowers. Raises: ToolError."""
    cross.said(["gcc", "-Os", *SIZE_FLAGS, *SOURCES, "-o", "trainer", "-lm"], folder)
    return subprocess.run([str(folder.resolve() / "trainer")]).returncode
