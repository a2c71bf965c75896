"""Tables of `benchmarks.cpu`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.cpu.kept import PROCESSOR, Kept
from benchmarks.cpu.rows import RATIOS, SHARES, Row
from benchmarks.cpu.rows import means as means_of
from benchmarks.cpu.trainer import Trainer
from benchmarks.harness import duration
from benchmarks.machine import Peaks
from benchmarks.workloads import STEP

GEOMETRIC_MEANS = {RATIOS: "≤ 0.65", SHARES: "≥ 0.7"}
ANY, LIBRARY = 1.05, 5
"""Goals: those of the means of steps, the ratio of any batch to a number, seconds to a loaded library."""


def counted(threads: int) -> str:
    """The number of threads."""
    return "1 thread" if threads == 1 else f"{threads} threads"


def text(seconds: float | None) -> str:
    """Return a time, or a dash."""
    return "–" if seconds is None else duration(seconds)


def over(ratio: float | None) -> str:
    """Return a ratio, or a dash."""
    return "–" if ratio is None else f"{ratio:.3g}"


def percent(share: float | None) -> str:
    """Return a share, or a dash."""
    return "–" if share is None else f"{share:.0%}"


def line(row: Row, ours: str) -> str:
    """Return a row as a short line."""
    figures = ", ".join(f"{name} {text(r.seconds)}" for name, r in row.results.items() if r.seconds)
    return f"{row.workload} {row.measure}, {counted(row.threads)}: {figures or 'nothing'}"


def comparison(rows: Sequence[Row], ours: str, peaks: Peaks) -> Table:
    """Compare with the fastest peer and the roofline, for one number of threads."""
    title = f"{ours}, {counted(rows[0].threads)}; peak of a core: {peaks.operations / 1e9:.0f} GFLOP/s"
    table = Table(title=title, box=box.SIMPLE_HEAD)
    for heading in (
        "workload", "what", "ours", "best peer", "its time", "ratio", "goal", f"any batch, ≤ {ANY:g}",
        "of the peak", "least time", "share",
    ):  # fmt: skip
        table.add_column(heading)
    for row in rows:
        mine, best = row.seconds(ours), row.best_peer(ours)
        of_peak = row.operations / mine / (peaks.operations * row.threads) if mine else None
        table.add_row(
            row.title, row.measure, text(mine), best[0] if best else "none", text(best[1] if best else None),
            over(row.ratio(ours)), f"≤ {row.goal:g}" if row.goal else "", over(row.any_batch(ours)),
            percent(of_peak), text(row.least(peaks)), percent(row.share(ours, peaks)),
        )  # fmt: skip
    return table


def names_of(rows: Iterable[Row]) -> list[str]:
    """Return the names of all competitors, in order."""
    return list(dict.fromkeys(name for row in rows for name in row.results))


def everyone(rows: Sequence[Row]) -> Table:
    """Compare all competitors, for one number of threads."""
    names = names_of(rows)
    table = Table("workload", "what", *names, title=f"all, {counted(rows[0].threads)}", box=box.SIMPLE_HEAD)
    for row in rows:
        table.add_row(row.workload, row.measure, *(text(row.seconds(name)) for name in names))
    return table


def first_calls(rows: Sequence[Row]) -> Table:
    """Tabulate the seconds of each competitor up to the end of its first call."""
    names = names_of(rows)
    table = Table(
        "workload", "what", *names, title="building, compiling and the first call", box=box.SIMPLE_HEAD
    )
    for row in rows:
        first = [row.results[name].first if name in row.results else None for name in names]
        table.add_row(row.workload, row.measure, *map(text, first))
    return table


def reasons(rows: Iterable[Row]) -> list[str]:
    """List the reasons for missing figures."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for name, result in row.results.items():
            if result.reason and result.reason != "does not":
                found.setdefault((name, result.reason), []).append(f"{row.workload} {row.measure}")
    return [f"{name}, {', '.join(dict.fromkeys(where))}: {reason}" for (name, reason), where in found.items()]


def means(rows: Sequence[Row], ours: str, peaks: Peaks) -> list[str]:
    """Return the geometric means of the ratios and shares of steps, for each number of threads."""
    return [
        f"geometric mean of the {what} of steps, {counted(threads)}: {mean:.3g}"
        f" (rows: {count}; goal: {GEOMETRIC_MEANS[what]})"
        for threads in dict.fromkeys(row.threads for row in rows)
        for what, (mean, count) in means_of(
            [row for row in rows if row.threads == threads], ours, peaks
        ).items()
    ]


def speed_up(rows: Sequence[Row], ours: str) -> list[str]:
    """Return the speed-ups of catgrad with more threads, wall time against processor time."""
    alone = {(row.workload, row.measure): row.seconds(ours) for row in rows if row.threads == 1}
    found = []
    for row in rows:
        one, more = alone.get((row.workload, row.measure)), row.seconds(ours)
        if row.threads > 1 and one and more:
            goal = f" (goal: ≥ {row.speed_up:g})" if row.speed_up and row.threads == 2 else ""
            found.append(
                f"{row.workload} {row.measure}: {counted(row.threads)} are {one / more:.2f} times as fast"
                f" as one{goal}"
            )
    return found


def compiled(rows: Sequence[Row], ours: str) -> list[str]:
    """Return the seconds of the character GPT from a term to the end of its first step."""
    return [
        f"{row.workload}, {ours}: {text(row.results[ours].first)} from the term to the end of the first step"
        f" (goal: ≤ {LIBRARY} s to the loaded library)"
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


def about(machine: dict[str, object]) -> list[str]:
    """Return the name of the processor, and a limit of PyTorch on some."""
    name = str(machine[PROCESSOR])
    limit = (
        ["on it, PyTorch's library for products, MKL, does not use AVX-512"]
        if "AMD" in name and "AVX-512" in name
        else []
    )
    return [f"processor: {name}", *limit]


def show(console: Console, kept: Kept, ours: str) -> None:
    """Print all tables."""
    rows = kept.rows
    for threads in dict.fromkeys(row.threads for row in rows):
        these = [row for row in rows if row.threads == threads]
        console.print(comparison(these, ours, kept.peaks), everyone(these))
    console.print(first_calls([row for row in rows if row.threads == rows[0].threads]))
    for each in [
        *about(kept.machine),
        *means(rows, ours, kept.peaks),
        *speed_up(rows, ours),
        *compiled(rows, ours),
        *(held(kept.trainer, ours) if kept.trainer else []),
        *reasons(rows),
    ]:
        console.print(each, highlight=False, markup=False)


def complete(row: Row, ours: str) -> bool:
    """Return whether catgrad was measured, or has no such measure."""
    return row.seconds(ours) is not None or row.results[ours].reason == "does not"
