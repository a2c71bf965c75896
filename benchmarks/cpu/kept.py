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
from benchmarks.cpu.rows import Row, means, row_of
from benchmarks.cpu.trainer import Trainer
from benchmarks.cpu.workloads import WORKLOADS
from benchmarks.harness import RESULTS, processor, results_of
from benchmarks.machine import Peaks
from catgrad.errors import ArtifactError

BENCHMARK = "cpu"
COMMAND = "python -m benchmarks.cpu --keep"
PROCESSOR, PEAK, BUSY = "processor", "operations a second of a core", "share that others used"
BANDWIDTH = "bytes a second of a core"
"""Facts of a machine; the last has pairs of a size in bytes and the bandwidth, and is not in older files."""


@dataclass(frozen=True)
class Kept:
    """The machine, the versions of peers, the rows, and the memory of trainers."""

    machine: dict[str, Any]
    peers: Sequence[str]
    rows: Sequence[Row]
    trainer: Trainer | None = None

    @property
    def peaks(self) -> Peaks:
        """The peaks of the machine, in older files without bandwidth."""
        return Peaks(self.machine[PEAK] or 0, dict(self.machine.get(BANDWIDTH, ())))

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
        pairs = sorted([*self.peaks.bandwidth.items(), *part.peaks.bandwidth.items()])
        most[BANDWIDTH] = [*dict(pairs).items()]
        return Kept(
            part.machine | most, part.peers, ordered([*rows, *part.rows]), part.trainer or self.trainer
        )

    def figures(self, row: Row) -> dict[str, Any]:
        """Return a row for JSON, with its share of the roofline."""
        ours = next(iter(row.results))
        return {**row.figures(), "least seconds": row.least(self.peaks), "share": row.share(ours, self.peaks)}

    def means(self) -> list[dict[str, Any]]:
        """Return the geometric means of steps for each number of threads, each with its number of rows."""
        found = []
        for threads in dict.fromkeys(row.threads for row in self.rows):
            rows = [row for row in self.rows if row.threads == threads]
            found.append({"threads": threads, **means(rows, next(iter(rows[0].results)), self.peaks)})
        return found

    def write(self, path: Path | None = None) -> None:
        """Write the file, that of the processor unless another is given."""
        path = path or path_of(self.machine[PROCESSOR])
        whole = {
            "command": COMMAND, "machine": self.machine, "peers": self.peers,
            "means": self.means(), "rows": [self.figures(row) for row in self.rows],
            "trainer": asdict(self.trainer) if self.trainer else None,
        }  # fmt: skip
        records.keep(path, whole)


def described(peaks: Peaks, busy: float | None) -> dict[str, Any]:
    """Return the facts of this machine."""
    return {
        PROCESSOR: processor(), "cores": os.cpu_count(), "python": platform.python_version(),
        PEAK: peaks.operations, BUSY: busy, BANDWIDTH: [*peaks.bandwidth.items()],
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
