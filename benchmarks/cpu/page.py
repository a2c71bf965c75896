"""The figures of `benchmarks.cpu` as tables in Markdown, for its page: `python -m benchmarks.cpu.page`."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.cpu import kept
from benchmarks.cpu.rows import Row, means
from benchmarks.cpu.tables import counted, names_of, over, percent, text
from benchmarks.machine import Peaks


def tables(rows: Sequence[Row], peaks: Peaks) -> list[str]:
    """Return a table for each number of threads, with the geometric means of its steps below."""
    counts = dict.fromkeys(row.threads for row in rows)
    return [table([row for row in rows if row.threads == threads], peaks) for threads in counts]


def table(rows: Sequence[Row], peaks: Peaks) -> str:
    """Return the rows of one number of threads, with the time of every competitor."""
    names = names_of(rows)
    heading = ("model", "function", *names, "ratio", "least time", "share")
    lines = [heading, ("---",) * len(heading)]
    for row in rows:
        times = (text(row.seconds(name)) for name in names)
        ends = over(row.ratio(names[0])), text(row.least(peaks)), percent(row.share(names[0], peaks))
        lines.append((row.title, row.measure, *times, *ends))
    below = [
        f"\nGeometric mean of the {what} of steps, {counted(rows[0].threads)}: {mean:.3g} (rows: {count}).\n"
        for what, (mean, count) in means(rows, names[0], peaks).items()
    ]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines) + "".join(below)


if __name__ == "__main__":
    for found in kept.every():
        print(f"### {found.machine[kept.PROCESSOR]}\n", *tables(found.rows, found.peaks), sep="\n")
