"""A row of `benchmarks.cpu`: the figures of all competitors in one measure of one workload."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import exp, log
from typing import Any

from benchmarks.cpu.workloads import chosen
from benchmarks.race import Result
from benchmarks.workloads import STEP

ANY_BATCH = ", any batch"
"""The end of the name of the competitor of ours whose batch has a symbol as its size."""
SUMMARY = ("seconds", "from", "to", "first")
"""The figures that are kept: the median, the first and last of the rounds, and the time of the first call."""


@dataclass(frozen=True)
class Row:
    """All figures of one measure of one workload; `speed_up` is the required one of two threads."""

    workload: str
    title: str
    measure: str
    threads: int
    operations: int
    goal: float | None
    speed_up: float | None
    results: dict[str, Result]

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

    def figures(self) -> dict[str, Any]:
        """Return the row for JSON, without data that only checks need."""
        ours = next(iter(self.results))
        best = self.best_peer(ours)
        return {
            "workload": self.workload, "measure": self.measure, "threads": self.threads,
            "operations": self.operations, "goal": self.goal,
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
    return Row(title=workload.title, speed_up=workload.speed_up, results=results, **same)


def geometric_mean(rows: Iterable[Row], ours: str) -> tuple[float, int] | None:
    """Return the geometric mean of the ratios of steps, and their number."""
    ratios = [ratio for row in rows if row.measure == STEP and (ratio := row.ratio(ours))]
    return (exp(sum(map(log, ratios)) / len(ratios)), len(ratios)) if ratios else None
