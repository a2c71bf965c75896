"""Common parts of benchmarks: timing in turns, virtual environments for peers, the processor's name."""

from __future__ import annotations

import platform
import subprocess
import time
import venv
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.console import Console

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


def best(function: Callable[[], object], repeats: int = 5) -> float:
    """Return the minimum time of one call."""
    return min(in_turns({"": function}, repeats)[""])


def in_turns(
    functions: Mapping[str, Callable[[], object]],
    rounds: int,
    number: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Return the times of a call of each function in each round, in which they run in turns."""
    taken: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            start = clock()
            for _ in range(number):
                function()
            taken[name].append((clock() - start) / number)
    return taken


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


def short(path: Path) -> Path:
    """Return a path in the checkout relative to it."""
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


def duration(seconds: float) -> str:
    """Format seconds with a unit."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


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
