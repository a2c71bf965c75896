"""Figures of `benchmarks.cpu`: a JSON file for each processor, to which parts of a measurement are added."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks import records
from benchmarks.cpu.rows import BUSY, PEAK, by_threads, facts_of, means, peaks_of, timed
from benchmarks.harness import RESULTS
from benchmarks.machine import Peaks
from benchmarks.records import Record, Row

COMMAND = "python -m benchmarks.cpu --keep"


def part_of(peaks: Peaks, busy: float | None, versions: Sequence[str], rows: Sequence[Row]) -> Record:
    """Return rows that were measured on this machine."""
    machine = records.described(**facts_of(peaks, busy))
    return Record(COMMAND, rows, machine, records.versions_of(versions))


def joined(old: Record, part: Record) -> Record:
    """Replace rows by those of a part; of the peaks of both, the greater count, as of the load by others.

    Raises: ArtifactError on another processor.
    """
    peak, busy = (max(each.machine[fact] or 0 for each in (old, part)) for fact in (PEAK, BUSY))
    pairs = sorted([*peaks_of(old).bandwidth.items(), *peaks_of(part).bandwidth.items()])
    whole = old.with_part(part)
    whole = replace(whole, machine={**whole.machine, **facts_of(Peaks(peak, dict(pairs)), busy)})
    rows = timed(whole)
    return replace(whole, rows=[*rows, *(row for row in whole.rows if row not in rows)])


def with_means(record: Record) -> Record:
    """Add the geometric means of steps for each number of threads, each with its number of rows."""
    peaks = peaks_of(record)
    every = [{"threads": count, **means(rows, peaks)} for count, rows in by_threads(timed(record)).items()]
    return replace(record, more={**record.more, "means": every})


def path_of(record: Record) -> Path:
    """Return the file of a record's processor."""
    return records.path_of("cpu", record.machine["processor"])


def every() -> list[Record]:
    """Return the figures of all processors, by their names."""
    return [records.read(path) for path in sorted((RESULTS / "cpu").glob("*.json"))]
