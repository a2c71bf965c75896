"""Competitors in separate processes, which stay alive and answer requests over pipes."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from benchmarks.harness import ROOT
from catgrad.errors import ToolError

PATIENCE = 900
"""Timeout in seconds for an answer; compilers may take minutes."""


@dataclass(frozen=True)
class Competitor:
    """A module of benchmarks.peers with the Python that runs it, or the reason why none can.

    A `tolerance` is the relative one of its losses, if it computes less precisely than others.
    """

    name: str
    module: str
    word: str = ""
    python: Path | str = sys.executable
    missing: str = ""
    tolerance: float | None = None

    def command(self, folder: Path, threads: int) -> list[Any]:
        """Return the command of its process."""
        word = [self.word] if self.word else []
        return [self.python, "-m", f"benchmarks.peers.{self.module}", folder, str(threads), *word]


def forever() -> float:
    """Return the seconds that are left where there is no limit."""
    return float("inf")


class Process:
    """The process of a competitor, a context manager that ends it; answers have no longer than is `left`."""

    def __init__(
        self, competitor: Competitor, folder: Path, threads: int, left: Callable[[], float] = forever
    ) -> None:
        self.competitor, self.folder, self.threads, self.left = competitor, folder, threads, left
        self.name, self.stack = competitor.name, ExitStack()

    def __enter__(self) -> Self:
        self.errors = self.stack.enter_context(tempfile.TemporaryFile("w+"))
        self.process = subprocess.Popen(
            self.competitor.command(self.folder, self.threads),
            cwd=ROOT,
            env=environment(self.folder.parent, self.threads),
            text=True,
            bufsize=1,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()
        self.stack.close()

    def ask(self, do: str, **arguments: object) -> dict[str, Any]:
        """Send a request, and return the answer. Raises: ToolError if it ends or is silent."""
        self.send(do, **arguments)
        return self.answer()

    def send(self, do: str, **arguments: object) -> None:
        """Send a request. Raises: ToolError if the process has ended"""
        try:
            print(json.dumps({"do": do, **arguments}), file=self.process.stdin, flush=True)
        except BrokenPipeError:
            raise self._silent("it has ended") from None

    def answer(self) -> dict[str, Any]:
        """Return the next line of its output. Raises: ToolError if there is none."""
        patience = max(0.0, min(PATIENCE, self.left()))
        ready, _, _ = select.select([self.process.stdout], [], [], patience)
        line = self.process.stdout.readline() if ready and self.process.stdout else ""
        if not line:
            raise self._silent("it has ended" if ready else f"it was silent for {patience:.0f} s")
        return json.loads(line)

    def _silent(self, what: str) -> ToolError:
        self.errors.seek(0)
        last = [line.strip() for line in self.errors.read().splitlines() if line.strip()][-1:]
        return ToolError(
            f"{self.name} must answer", ": ".join([what, *last]), "run its module of benchmarks.peers alone"
        )


def environment(folder: Path, threads: int) -> dict[str, str]:
    """Return environment variables that set the number of threads, and an empty folder for caches."""
    counts = {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    caches = {
        "TORCHINDUCTOR_CACHE_DIR": str(folder / f"inductor-{threads}"),
        "CATGRAD_CACHE": str(folder / f"catgrad-{threads}"),
    }
    return {**os.environ, **counts, **caches}
