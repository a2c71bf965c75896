"""Common parts of benchmarks: timing, virtual environments for peers, tables and JSON."""

from __future__ import annotations

import os
import platform
import re
import statistics
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks import records
from catgrad.errors import CatgradError

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
VECTORS = {"avx512f": "AVX-512", "avx2": "AVX2"}
"""The names of vector extensions by the flags of Linux, the widest first."""


@contextmanager
def errors_in_a_line(console: Console) -> Iterator[None]:
    """Print an error of catgrad in a line, without a traceback, and exit with status 2."""
    try:
        yield
    except CatgradError as error:
        console.print(f"{type(error).__name__}: {error}", highlight=False, markup=False)
        raise typer.Exit(2) from None


@dataclass(frozen=True)
class Row:
    """A figure, that of a peer, and the required ratio."""

    what: str
    seconds: float
    peer: str
    peer_seconds: float
    goal: str

    @property
    def ratio(self) -> float:
        """The figure of catgrad over that of the peer."""
        return self.seconds / self.peer_seconds


@dataclass
class Report:
    """The rows of one run."""

    name: str
    title: str
    command: str
    rows: list[Row] = field(default_factory=list)

    def add(self, what: str, seconds: float, peer: str, peer_seconds: float, goal: str) -> None:
        """Add a row."""
        self.rows.append(Row(what, seconds, peer, peer_seconds, goal))

    def finish(self) -> None:
        """Print the table and keep it under benchmarks/results."""
        table = Table(
            "what", "time", "peer", "its time", "ratio", "goal", title=self.title, box=box.SIMPLE_HEAD
        )
        for row in self.rows:
            table.add_row(
                row.what,
                duration(row.seconds),
                row.peer,
                duration(row.peer_seconds),
                f"{row.ratio:.3g}",
                row.goal,
            )
        Console(width=130).print(table)
        machine = {"processor": processor(), "cores": os.cpu_count(), "python": platform.python_version()}
        rows = [{**asdict(row), "ratio": row.ratio} for row in self.rows]
        path = RESULTS / f"{self.name}.json"
        records.keep(path, {"command": self.command, "machine": machine, "rows": rows})
        print(f"kept in {path.relative_to(ROOT)}")


def best(function: Callable[[], Any], repeats: int = 5, number: int = 1) -> float:
    """Return the minimum time of one call."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(number):
            function()
        times.append((time.perf_counter() - start) / number)
    return min(times)


def side_by_side(functions: list[Callable[[], Any]], rounds: int = 15, number: int = 500) -> list[float]:
    """Return the median time of each function, measured alternately."""
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(rounds):
        for function, kept in zip(functions, times, strict=True):
            kept.append(best(function, repeats=1, number=number))
    return [statistics.median(kept) for kept in times]


def peer_python(name: str, *requirements: str) -> Path:
    """Return the Python of the peer's virtual environment, created at first use."""
    folder = ROOT / ".cache" / "peers" / name
    python = folder / "bin" / "python"
    if not (folder / "installed").exists():
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *requirements], check=True)
        (folder / "installed").touch()
    return python


def seconds_printed(python: Path | str, *arguments: str) -> float:
    """Run a script, and return the number on its last line."""
    done = subprocess.run([python, *arguments], cwd=ROOT, check=True, capture_output=True, text=True)
    return float(done.stdout.splitlines()[-1])


def this_python() -> str:
    """Return the Python that runs the benchmark."""
    return sys.executable


def duration(seconds: float) -> str:
    """Format seconds with a unit."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def results_of(benchmark: str, processor: str) -> Path:
    """Return the file of a benchmark that keeps figures of several processors."""
    words = re.findall(r"[a-z0-9]+", processor.lower().replace("(r)", ""))
    return RESULTS / benchmark / f"{'-'.join(words)}.json"


def processor() -> str:
    """Return the processor's name with its widest vectors, if known: one name may be of many generations."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        facts = {line.split(":")[0].strip(): line.split(":")[1].strip() for line in lines if ":" in line}
        name, flags = facts["model name"], facts.get("flags", "").split()
    except (OSError, KeyError):
        return platform.processor() or "unknown"
    widest = next((vectors for flag, vectors in VECTORS.items() if flag in flags), None)
    return f"{name} with {widest}" if widest else name
