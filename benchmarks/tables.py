"""Tables and JSON of `benchmarks.cpu`."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.harness import RESULTS, ROOT, duration, processor
from benchmarks.race import Result
from benchmarks.trainer import Trainer
from benchmarks.workloads import STEP

ANY_BATCH = ", any batch"
"""The end of the name of the competitor of ours whose batch has a symbol as its size."""


@dataclass(frozen=True)
class Row:
    """All figures of one measure of one workload."""

    workload: str
    title: str
    measure: str
    threads: int
    operations: int
    goal: float | None
    results: dict[str, Result]

    def seconds(self, name: str) -> float | None:
        """The figures of a competitor."""
        return self.results[name].seconds

    def best_peer(self, ours: str) -> tuple[str, float] | None:
        """Return the fastest peer."""
        timed = [(r.seconds, n) for n, r in self.results.items() if n != ours and r.seconds is not None]
        return min(timed)[::-1] if timed else None

    def ratio(self, ours: str) -> float | None:
        """The time of catgrad over that of the fastest peer."""
        mine, best = self.seconds(ours), self.best_peer(ours)
        return None if mine is None or best is None else mine / best[1]


def counted(threads: int) -> str:
    """The number of threads."""
    return "1 thread" if threads == 1 else f"{threads} threads"


def text(seconds: float | None) -> str:
    """Return a time, or a dash."""
    return "–" if seconds is None else duration(seconds)


def line(row: Row, ours: str) -> str:
    """Return a row as a short line."""
    figures = ", ".join(f"{name} {text(r.seconds)}" for name, r in row.results.items() if r.seconds)
    return f"{row.workload} {row.measure}, {counted(row.threads)}: {figures or 'nothing'}"


def comparison(rows: Sequence[Row], ours: str, peak: float) -> Table:
    """Compare with the fastest peer, for one number of threads."""
    title = f"{ours}, {counted(rows[0].threads)}; peak of a core: {peak / 1e9:.0f} GFLOP/s"
    table = Table(title=title, box=box.SIMPLE_HEAD)
    for heading in ("workload", "what", "ours", "best peer", "its time", "ratio", "goal", "of the peak"):
        table.add_column(heading)
    for row in rows:
        mine, best, ratio = row.seconds(ours), row.best_peer(ours), row.ratio(ours)
        share = row.operations / mine / (peak * row.threads) if mine else None
        table.add_row(
            row.title, row.measure, text(mine), best[0] if best else "none", text(best[1] if best else None),
            f"{ratio:.3g}" if ratio else "–", f"≤ {row.goal:g}" if row.goal else "",
            f"{share:.0%}" if share else "–",
        )  # fmt: skip
    return table


def everyone(rows: Sequence[Row]) -> Table:
    """Compare all competitors, for one number of threads."""
    names = list(rows[0].results)
    table = Table("workload", "what", *names, title=f"all, {counted(rows[0].threads)}", box=box.SIMPLE_HEAD)
    for row in rows:
        table.add_row(row.workload, row.measure, *(text(row.seconds(name)) for name in names))
    return table


def first_calls(rows: Sequence[Row]) -> Table:
    """Tabulate the seconds of each competitor up to the end of its first call."""
    names = list(rows[0].results)
    table = Table(
        "workload", "what", *names, title="building, compiling and the first call", box=box.SIMPLE_HEAD
    )
    for row in rows:
        table.add_row(row.workload, row.measure, *(text(row.results[name].first) for name in names))
    return table


def reasons(rows: Iterable[Row]) -> list[str]:
    """List the reasons for missing figures."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for name, result in row.results.items():
            if result.reason and result.reason != "does not":
                found.setdefault((name, result.reason), []).append(f"{row.workload} {row.measure}")
    return [f"{name}, {', '.join(dict.fromkeys(where))}: {reason}" for (name, reason), where in found.items()]


def speed_up(rows: Sequence[Row], ours: str) -> list[str]:
    """Tabulate the speed-up of a step of catgrad with more threads, wall time against processor time."""
    alone = {(row.workload, row.measure): row.seconds(ours) for row in rows if row.threads == 1}
    found = []
    for row in rows:
        one, more = alone.get((row.workload, row.measure)), row.seconds(ours)
        if row.threads > 1 and row.measure == STEP and one and more:
            found.append(f"{row.workload}: {counted(row.threads)} are {one / more:.2f} times as fast as one")
    return found


def compiled(rows: Sequence[Row], ours: str) -> list[str]:
    """Return the seconds of the character GPT from a term to the end of its first step."""
    return [
        f"{row.workload}, {ours}: {text(row.results[ours].first)} from the term to the end of the first step"
        " (goal: ≤ 5 s to the loaded library)"
        for row in rows
        if (row.workload, row.measure, row.threads) == ("char-gpt", STEP, 1) and row.results[ours].first
    ]


def held(kept: Trainer, ours: str) -> list[str]:
    """Return the memory of the trainers."""
    found = [f"memory of the trainer, {name}: {size / 1e6:.0f} MB" for name, size in kept.memory.items()]
    mine, peers = kept.memory.get(ours), [size for name, size in kept.memory.items() if name != ours]
    if mine and peers:
        found.append(f"ours is {mine / peers[0]:.3f} of that (goal: ≤ 0.25)")
    return found + [f"memory of the trainer, {name}: {reason}" for name, reason in kept.reasons.items()]


def show(console: Console, rows: Sequence[Row], ours: str, peak: float, kept: Trainer | None) -> None:
    """Print all tables."""
    for threads in dict.fromkeys(row.threads for row in rows):
        these = [row for row in rows if row.threads == threads]
        console.print(comparison(these, ours, peak), everyone(these))
    console.print(first_calls([row for row in rows if row.threads == rows[0].threads]))
    for each in [
        *speed_up(rows, ours),
        *compiled(rows, ours),
        *(held(kept, ours) if kept else []),
        *reasons(rows),
    ]:
        console.print(each, highlight=False, markup=False)


def complete(row: Row, ours: str) -> bool:
    """Return whether catgrad was measured, or has no such measure."""
    return row.seconds(ours) is not None or row.results[ours].reason == "does not"


def figures(row: Row) -> dict[str, Any]:
    """Return a row without data that only checks need."""
    kept = {key: value for key, value in asdict(row).items() if key not in ("title", "results")}
    results = {
        name: {"seconds": r.seconds, "from": min(r.rounds), "to": max(r.rounds), "first": r.first}
        if r.rounds
        else {"reason": r.reason}
        for name, r in row.results.items()
    }
    ours = next(iter(row.results))
    best = row.best_peer(ours)
    return kept | {"best peer": best[0] if best else None, "ratio": row.ratio(ours), "results": results}


def keep(
    rows: Sequence[Row], peak: float, busy: float | None, kept: Trainer | None, versions: Sequence[str]
) -> Path:
    """Write the figures as JSON; return the path."""
    machine = {
        "processor": processor(), "cores": os.cpu_count(), "python": platform.python_version(),
        "operations a second of a core": peak, "share that others used": busy,
    }  # fmt: skip
    threads = ",".join(map(str, sorted({row.threads for row in rows})))
    whole = {
        "command": f"python -m benchmarks.cpu --threads {threads}", "machine": machine, "peers": versions,
        "rows": [figures(row) for row in rows], "trainer": asdict(kept) if kept else None,
    }  # fmt: skip
    path = RESULTS / "cpu.json"
    path.write_text(json.dumps(whole, indent=1) + "\n")
    return path.relative_to(ROOT)
