"""The peaks of the machine, and the operations and memory of a program."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from catgrad.backends.c import compiler

from benchmarks.harness import ROOT
from catgrad import Task
from catgrad.errors import ToolError
from catgrad.learn.entries import program
from catgrad.learn.reports.costs import prepared
from catgrad.programs.cost import costs, total
from catgrad.programs.ports import Kind
from catgrad.programs.program import Function


class Peaks(NamedTuple):
    """Float32 operations a second of one core, and bytes a second that it reads from arrays by their size."""

    operations: float
    bandwidth: Mapping[int, float]


UNKNOWN = Peaks(0.0, {})


def peaks() -> Peaks:
    """Measure the peaks of this machine. Raises: ToolError without a compiler."""
    command = compiler.COMPILER.command()
    if not command:
        raise ToolError("a C compiler must measure the machine's peaks", "there is none", "install gcc")
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder) / "peak"
        source = ROOT / "benchmarks" / "peak.c"
        subprocess.run([*command, *compiler.FLAGS, source, "-o", binary], check=True)
        lines = subprocess.run([binary], check=True, capture_output=True, text=True).stdout.splitlines()
    pairs = (line.split() for line in lines[1:])
    return Peaks(float(lines[0]), {int(size): float(rate) for size, rate in pairs})


def busy(seconds: float = 1.0) -> float | None:
    """Return the load by other processes, or None if unknown."""
    before = _ticks()
    time.sleep(seconds)
    idle, every = (after - first for after, first in zip(_ticks(), before, strict=True))
    return 1 - idle / every if every else None


def _ticks() -> tuple[int, int]:
    """Return the idle time of all processors, and the total time."""
    try:
        ticks = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    except OSError:
        return 0, 0
    return ticks[3] + ticks[4], sum(ticks[:8])


def primitives(task: Task, function: str) -> Function:
    """Return a function as optimised primitives, with nested loops."""
    return prepared(program(task, lambda op: op.body is None, [Kind(function)])[function])


def products(straight: Function) -> int:
    """Count the multiplications and additions in contractions, which convolutions are too, and in loops."""
    return int(total(costs(straight)).products)


def operations(task: Task, function: str) -> int:
    """Count the multiplications and additions in contractions of a function of a task."""
    return products(primitives(task, function))


def workspaces(library: Any) -> tuple[int, int]:
    """Return the bytes of the workspaces of step and predict in a compiled library."""
    step, predict = (library.workspace_bytes(name, 0)() for name in ("step", "predict"))
    return step, predict


MEASURED = """
import os, sys
child = os.fork()
if not child:
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.execvp(sys.argv[1], sys.argv[1:])
_, status, usage = os.wait4(child, 0)
print(usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024))
sys.exit(os.waitstatus_to_exitcode(status) != 0)
"""


def most_memory(command: list[str], folder: Path) -> int:
    """Return the peak memory of a command in bytes. Raises: ToolError if it fails.

    The count of the operating system includes the memory of the parent process, so a small program starts it.
    """
    launched = [sys.executable, "-S", "-E", "-c", MEASURED, *command]
    done = subprocess.run(launched, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.splitlines() or ["no word"])[-1]
        raise ToolError(f"{command[0]} must train", f"it failed: {last}", "run it by hand")
    return int(done.stdout)
