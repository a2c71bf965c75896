"""A row of `benchmarks.cpu`: the figures of all competitors in one measure of one workload."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import geometric_mean
from typing import Any

from benchmarks.cpu.roofline import Work, least_seconds
from benchmarks.cpu.workloads import chosen
from benchmarks.machine import Peaks
from benchmarks.race import Result
from benchmarks.workloads import STEP

ANY_BATCH = ", any batch"
"""The end of the name of the competitor of ours whose batch has a symbol as its size."""
RATIOS, SHARES = "ratios", "shares of the roofline"
"""Figures with geometric means over steps: times over the fastest peer's, and least times over ours."""
SUMMARY = ("seconds", "from", "to", "first")
"""The figures that are kept: the median, the first and last of the rounds, and the time of the first call."""


@dataclass(frozen=True)
class Row:
    """All figures of one measure of one workload; `speed_up` is the required one of two threads.

    `arrays` counts those that the function reads, by their bytes; rows of older files have none.
    """

    workload: str
    title: str
    measure: str
    threads: int
    operations: int
    goal: float | None
    speed_up: float | None
    results: dict[str, Result]
    arrays: Mapping[int, int] = field(default_factory=dict)

    def seconds(self, name: str) -> float | None:
        """The figures of a competitor."""
        return self.results[name].seconds if name in self.results else None

    def best_peer(self, ours: str) -> tuple[str, float] | None:
        """Return the fastest peer in the same measure."""
        peers = {n: r.seconds for n, r in self.results.items() if n not in (ours, ours + ANY_BATCH)}
        timed = [(seconds, name) for name, seconds in peers.items() if seconds is not None]
        return min(timed)[::-1] if timed else None

    def ratio(self, ours: str) -> float | None:
        """The time of catgrad over that of the fastest peer."""
        mine, best = self.seconds(ours), self.best_peer(ours)
        return None if mine is None or best is None else mine / best[1]

    def any_batch(self, ours: str) -> float | None:
        """The time with a symbol as the size of the batch over that with a number."""
        mine, symbolic = self.seconds(ours), self.seconds(ours + ANY_BATCH)
        return None if mine is None or symbolic is None else symbolic / mine

    def least(self, peaks: Peaks) -> float | None:
        """The least time on a machine, None if its arrays or the bandwidth are unknown."""
        if not self.arrays or not peaks.bandwidth:
            return None
        return least_seconds(Work(self.operations, self.arrays), peaks, self.threads)

    def share(self, ours: str, peaks: Peaks) -> float | None:
        """The least time over that of catgrad."""
        mine, least = self.seconds(ours), self.least(peaks)
        return None if mine is None or least is None else least / mine

    def figures(self) -> dict[str, Any]:
        """Return the row for JSON, without data that only checks need."""
        ours = next(iter(self.results))
        best = self.best_peer(ours)
        return {
            "workload": self.workload, "measure": self.measure, "threads": self.threads,
            "operations": self.operations, "arrays": [*self.arrays.items()], "goal": self.goal,
            "best peer": best[0] if best else None, "ratio": self.ratio(ours),
            "results": {name: summary(result) for name, result in self.results.items()},
        }  # fmt: skip


def summary(result: Result) -> dict[str, Any]:
    """Return the figures of a competitor, or the reason why there are none."""
    if not result.rounds:
        return {"reason": result.reason}
    ends = min(result.rounds), max(result.rounds)
    return dict(zip(SUMMARY, (result.seconds, *ends, result.first), strict=True))


def row_of(figures: dict[str, Any]) -> Row:
    """Return the row of figures from JSON. Raises: UnknownName if there is no such workload."""
    [workload] = chosen(figures["workload"])
    results = {
        name: Result(r["seconds"], r["first"], rounds=[r["from"], r["to"]])
        if "seconds" in r
        else Result(reason=r["reason"])
        for name, r in figures["results"].items()
    }
    same = {key: figures[key] for key in ("workload", "measure", "threads", "operations", "goal")}
    arrays = dict(map(tuple, figures.get("arrays", ())))
    return Row(title=workload.title, speed_up=workload.speed_up, results=results, arrays=arrays, **same)


def means(rows: Iterable[Row], ours: str, peaks: Peaks) -> dict[str, tuple[float, int]]:
    """Return the geometric means of the ratios and of the shares of steps, each with the number of rows."""
    steps = [row for row in rows if row.measure == STEP]
    figures = {RATIOS: [row.ratio(ours) for row in steps], SHARES: [row.share(ours, peaks) for row in steps]}
    known = {what: [figure for figure in every if figure] for what, every in figures.items()}
    return {what: (geometric_mean(every), len(every)) for what, every in known.items() if every}
