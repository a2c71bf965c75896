"""Tables of `benchmarks.cpu`."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from benchmarks import tables
from benchmarks.cpu.rows import (
    BUSY,
    LONG,
    MEMORY,
    RATIOS,
    SHARES,
    any_batch,
    by_threads,
    counted,
    least,
    means,
    peaks_of,
    share,
    timed,
)
from benchmarks.cpu.workloads import chosen
from benchmarks.machine import Peaks
from benchmarks.records import Record, Row
from benchmarks.tables import ABSENT, over, percent, text

GEOMETRIC_MEANS = {RATIOS: "≤ 0.65", SHARES: "≥ 0.7", LONG: "≥ 0.7"}
ANY, LIBRARY, MEMORY_RATIO = 1.05, 5, 0.25
"""Goals: the means of steps, the ratio of any batch to a number, seconds to a loaded library, and bytes."""
FIRST = f"building, compiling and the first call; goal of the character GPT: ≤ {LIBRARY} s to the library"
BUSIEST = 0.05
"""The load by other processes above which a warning is printed."""


def line(row: Row) -> str:
    """Return a row as a short line."""
    figures = ", ".join(f"{name} {text(time)}" for name, time in {**row.ours(), **row.peers()}.items())
    return f"{row.what}: {figures or 'nothing'}"


def columns(peaks: Peaks) -> tables.Columns:
    """Return the columns that compare with the fastest peer and the roofline."""

    def of_peak(row: Row) -> float | None:
        mine = row.seconds(row.mine)
        return row.facts["operations"] / mine / (peaks.operations * row.facts["threads"]) if mine else None

    return {
        **tables.COMPARISON,
        f"any batch, ≤ {ANY:g}": lambda row: over(any_batch(row)),
        "of the peak": lambda row: percent(of_peak(row)),
        "least time": lambda row: text(least(row, peaks)),
        "share": lambda row: percent(share(row, peaks)),
    }


def mean_lines(rows: Sequence[Row], peaks: Peaks) -> list[str]:
    """Return the geometric means of the ratios and shares of steps, for each number of threads."""
    return [
        f"geometric mean of the {what} of steps, {counted(threads)}: {mean:.3g}"
        f" (rows: {count}; goal: {GEOMETRIC_MEANS[what]})"
        for threads, these in by_threads(rows).items()
        for what, (mean, count) in means(these, peaks).items()
    ]


def speed_up(rows: Sequence[Row]) -> list[str]:
    """Return the speed-ups of catgrad with more threads, wall time against processor time."""
    alone = {(r.facts["workload"], r.facts["measure"]): r for r in rows if r.facts["threads"] == 1}
    found = []
    for row in rows:
        name, threads = row.facts["workload"], row.facts["threads"]
        one, more = alone.get((name, row.facts["measure"])), row.seconds(row.mine)
        before = one.seconds(one.mine) if one else None
        if threads > 1 and before and more:
            [workload] = chosen(name)
            goal = f" (goal: ≥ {workload.speed_up:g})" if workload.speed_up and threads == 2 else ""
            found.append(f"{row.what} are {before / more:.2f} times as fast as one{goal}")
    return found


def memory(row: Row) -> list[str]:
    """Return the memory of the trainers."""
    ours, peers = row.ours("bytes"), row.peers("bytes")
    found = [f"{row.what}, {name}: {size / 1e6:.0f} MB" for name, size in {**ours, **peers}.items()]
    if ours and peers:
        ratio = ours[row.mine] / min(peers.values())
        found.append(f"ours is {ratio:.3f} of that (goal: ≤ {MEMORY_RATIO})")
    return found


def about(record: Record) -> list[str]:
    """Return the name of the processor, a limit of PyTorch on some, and a warning."""
    name, busy = str(record.machine["processor"]), record.machine[BUSY]
    found = [f"processor: {name}"]
    if "AMD" in name and "AVX-512" in name:
        found.append("on it, PyTorch's library for products, MKL, does not use AVX-512")
    if busy and busy > BUSIEST:
        found.append(f"others used {busy:.0%} of this machine: times with more than one thread are wrong")
    return found


def show(console: Console, record: Record) -> None:
    """Print all tables."""
    rows, peaks = timed(record), peaks_of(record)
    for threads, these in by_threads(rows).items():
        title = f"{rows[0].mine}, {counted(threads)}; peak of a core: {peaks.operations / 1e9:.0f} GFLOP/s"
        console.print(tables.table(these, columns(peaks), title))
        console.print(tables.everyone(these, title=f"all, {counted(threads)}"))
    for these in [*by_threads(rows).values()][:1]:
        console.print(tables.everyone(these, "first", FIRST))
    trainers = [line for row in record.rows if row.what == MEMORY for line in memory(row)]
    for each in [
        *about(record),
        *mean_lines(rows, peaks),
        *speed_up(rows),
        *trainers,
        *tables.reasons(record.rows),
    ]:
        console.print(each, highlight=False, markup=False)


def is_complete(row: Row) -> bool:
    """Return whether catgrad was measured, or has no such measure."""
    return "reason" not in row.results[row.mine] or row.results[row.mine]["reason"] == ABSENT
