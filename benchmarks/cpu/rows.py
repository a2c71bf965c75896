"""Rows of `benchmarks.cpu`: all competitors in a measure of a workload, beside the processor's limit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import geometric_mean
from typing import Any

from benchmarks.cpu.roofline import Work, least_seconds
from benchmarks.cpu.workloads import WORKLOADS, CpuWorkload
from benchmarks.machine import Peaks
from benchmarks.race import Result
from benchmarks.records import Record, Row
from benchmarks.workloads import STEP

ANY_BATCH = ", any batch"
"""The end of the name of the competitor of ours whose batch has a symbol as its size."""
RATIOS, SHARES, LONG = "ratios", "shares of the roofline", "shares of a roofline above 5 µs"
"""Figures with geometric means over steps: times over the fastest peer's, and least times over ours."""
CALL = 5e-6
"""Seconds of a call from Python, most of the time of steps of which the processor needs less."""
PEAK, BUSY = "operations a second of a core", "share that others used"
BANDWIDTH = "bytes a second of a core"
"""Facts of a machine; the last has pairs of a size in bytes and the bandwidth, and is not in older files."""
PLACES = {workload.name: k for k, workload in enumerate(WORKLOADS)}
MEMORY = "memory of the trainer"
"""The name of the row of bytes."""


def row_of(
    workload: CpuWorkload,
    measure: str,
    threads: int,
    work: Work,
    goal: float | None,
    results: Mapping[str, Result],
) -> Row:
    """Return the figures of all competitors."""
    name = f"{workload.title}: {measure}" + (f", {counted(threads)}" if threads > 1 else "")
    facts = {
        "workload": workload.name,
        "measure": measure,
        "threads": threads,
        "operations": work.operations,
        "arrays": [*work.arrays.items()],
    }
    figures = {name: result.figures() for name, result in results.items()}
    return Row(name, figures, f"≤ {goal:g}" if goal else "", facts)


def counted(threads: int) -> str:
    """The number of threads."""
    return "1 thread" if threads == 1 else f"{threads} threads"


def timed(record: Record) -> list[Row]:
    """Return the rows with times, by threads, then as workloads are."""
    rows = [row for row in record.rows if "threads" in row.facts]
    return sorted(rows, key=lambda row: (row.facts["threads"], PLACES[row.facts["workload"]]))


def by_threads(rows: Iterable[Row]) -> dict[int, list[Row]]:
    """Return the rows of each number of threads."""
    found: dict[int, list[Row]] = {}
    for row in rows:
        found.setdefault(row.facts["threads"], []).append(row)
    return found


def peaks_of(record: Record) -> Peaks:
    """Return the peaks of the machine, in older files without bandwidth."""
    return Peaks(record.machine[PEAK] or 0, dict(record.machine.get(BANDWIDTH, ())))


def facts_of(peaks: Peaks, busy: float | None) -> dict[str, Any]:
    """Return the facts of a machine that are measured."""
    return {PEAK: peaks.operations, BUSY: busy, BANDWIDTH: [*peaks.bandwidth.items()]}


def any_batch(row: Row) -> float | None:
    """Return the time with a symbol as the size of the batch over that with a number."""
    mine, symbolic = row.seconds(row.mine), row.seconds(row.mine + ANY_BATCH)
    return symbolic / mine if mine and symbolic else None


def least(row: Row, peaks: Peaks) -> float | None:
    """Return the least time on a machine, None if the arrays of the row or the bandwidth are unknown."""
    arrays = dict(map(tuple, row.facts.get("arrays", ())))
    if not arrays or not peaks.bandwidth:
        return None
    return least_seconds(Work(row.facts["operations"], arrays), peaks, row.facts["threads"])


def share(row: Row, peaks: Peaks) -> float | None:
    """Return the least time over that of catgrad."""
    mine, bound = row.seconds(row.mine), least(row, peaks)
    return bound / mine if mine and bound else None


def means(rows: Iterable[Row], peaks: Peaks) -> dict[str, tuple[float, int]]:
    """Return the geometric means of the ratios and of the shares of steps, each with the number of rows."""
    steps = [row for row in rows if row.facts["measure"] == STEP]
    long = [row for row in steps if (least(row, peaks) or 0) > CALL]
    figures = {RATIOS: [row.ratio for row in steps], SHARES: [share(row, peaks) for row in steps]}
    if len(long) < len(steps):
        figures[LONG] = [share(row, peaks) for row in long]
    known = {what: [figure for figure in every if figure] for what, every in figures.items()}
    return {what: (geometric_mean(every), len(every)) for what, every in known.items() if every}
