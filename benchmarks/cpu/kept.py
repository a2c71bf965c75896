"""Figures of `benchmarks.cpu`: a JSON file for each processor, to which parts of a measurement are added."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks import records
from benchmarks.cpu.rows import Row, row_of
from benchmarks.cpu.trainer import Trainer
from benchmarks.cpu.workloads import WORKLOADS
from benchmarks.harness import RESULTS, processor, results_of
from catgrad.errors import ArtifactError

BENCHMARK = "cpu"
COMMAND = "python -m benchmarks.cpu --keep"
PROCESSOR, PEAK, BUSY = "processor", "operations a second of a core", "share that others used"
"""Facts of a machine."""


@dataclass(frozen=True)
class Kept:
    """The machine, the versions of peers, the rows, and the memory of trainers."""

    machine: dict[str, Any]
    peers: Sequence[str]
    rows: Sequence[Row]
    trainer: Trainer | None = None

    def with_part(self, part: Kept) -> Kept:
        """Replace the rows of the workloads of a part. Raises: ArtifactError on another processor."""
        mine, other = self.machine[PROCESSOR], part.machine[PROCESSOR]
        if mine != other:
            raise ArtifactError(
                "all figures of a file must be of one processor",
                f"those in it are of {mine}, and this one is {other}",
                f"keep these in {path_of(other).name}",
            )
        measured = {(row.workload, row.threads) for row in part.rows}
        rows = [row for row in self.rows if (row.workload, row.threads) not in measured]
        most = {fact: max(self.machine[fact] or 0, part.machine[fact] or 0) for fact in (PEAK, BUSY)}
        return Kept(
            part.machine | most, part.peers, ordered([*rows, *part.rows]), part.trainer or self.trainer
        )

    def write(self, path: Path | None = None) -> None:
        """Write the file, that of the processor unless another is given."""
        path = path or path_of(self.machine[PROCESSOR])
        whole = {
            "command": COMMAND, "machine": self.machine, "peers": self.peers,
            "rows": [row.figures() for row in self.rows],
            "trainer": asdict(self.trainer) if self.trainer else None,
        }  # fmt: skip
        records.keep(path, whole)


def described(peak: float, busy: float | None) -> dict[str, Any]:
    """Return the facts of this machine."""
    return {
        PROCESSOR: processor(), "cores": os.cpu_count(), "python": platform.python_version(),
        PEAK: peak, BUSY: busy,
    }  # fmt: skip


def ordered(rows: Sequence[Row]) -> list[Row]:
    """Sort rows by the number of threads, then as workloads are."""
    places = {workload.name: k for k, workload in enumerate(WORKLOADS)}
    return sorted(rows, key=lambda row: (row.threads, places[row.workload]))


def path_of(processor: str) -> Path:
    """Return the file of a processor."""
    return results_of(BENCHMARK, processor)


def every() -> list[Kept]:
    """Return the figures of all processors, by their names."""
    return [found for path in sorted((RESULTS / BENCHMARK).glob("*.json")) if (found := read(path))]


def read(path: Path) -> Kept | None:
    """Return the figures of a file, None without one. Raises: UnknownName for a workload that is gone."""
    if not path.exists():
        return None
    whole = json.loads(path.read_text("utf-8"))
    kept = whole["trainer"]
    rows = [row_of(figures) for figures in whole["rows"]]
    return Kept(whole["machine"], whole["peers"], rows, Trainer(**kept) if kept else None)


def added(part: Kept, path: Path | None = None) -> Kept:
    """Return the figures of a file with those of a part. Raises: ArtifactError on another processor."""
    old = read(path or path_of(part.machine[PROCESSOR]))
    return old.with_part(part) if old else part
