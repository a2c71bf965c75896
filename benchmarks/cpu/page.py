"""The figures of `benchmarks.cpu` as tables in Markdown, for its page: `python -m benchmarks.cpu.page`."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.cpu import kept
from benchmarks.cpu.rows import by_threads, counted, least, means, peaks_of, share, timed
from benchmarks.machine import Peaks
from benchmarks.records import Row
from benchmarks.tables import BESIDE, WHAT, cells, markdown, names_of, percent, text, times


def table(rows: Sequence[Row], peaks: Peaks) -> str:
    """Return the rows of one number of threads, with the time of every competitor, and means below."""
    columns = {
        **WHAT,
        **times(names_of(rows)),
        "ratio": BESIDE["ratio"],
        "least time": lambda row: text(least(row, peaks)),
        "share": lambda row: percent(share(row, peaks)),
    }
    below = [
        f"Geometric mean of the {what} of steps, {counted(rows[0].facts['threads'])}: {mean:.3g}"
        f" (rows: {count}).\n"
        for what, (mean, count) in means(rows, peaks).items()
    ]
    return "\n".join([markdown(*cells(rows, columns)), "", *below])


if __name__ == "__main__":
    for found in kept.every():
        print(f"### {found.machine['processor']}\n")
        for rows in by_threads(timed(found)).values():
            print(table(rows, peaks_of(found)))
