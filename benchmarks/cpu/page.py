"""The figures of `benchmarks.cpu` as tables in Markdown, for its page: `python -m benchmarks.cpu.page`."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.cpu import kept
from benchmarks.cpu.rows import Row, geometric_mean
from benchmarks.cpu.tables import counted, names_of, over, text


def tables(rows: Sequence[Row]) -> list[str]:
    """Return a table for each number of threads, with the geometric mean of its steps below."""
    counts = dict.fromkeys(row.threads for row in rows)
    return [table([row for row in rows if row.threads == threads]) for threads in counts]


def table(rows: Sequence[Row]) -> str:
    """Return the rows of one number of threads, with the time of every competitor."""
    names = names_of(rows)
    heading = ("model", "function", *names, "ratio")
    lines = [heading, ("---",) * len(heading)]
    for row in rows:
        times = (text(row.seconds(name)) for name in names)
        lines.append((row.title, row.measure, *times, over(row.ratio(names[0]))))
    mean = geometric_mean(rows, names[0])
    count = counted(rows[0].threads)
    below = mean and f"\nGeometric mean of the ratios of steps, {count}: {mean[0]:.3g} (rows: {mean[1]}).\n"
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines) + (below or "")


if __name__ == "__main__":
    for found in kept.every():
        print(f"### {found.machine[kept.PROCESSOR]}\n", *tables(found.rows), sep="\n")
