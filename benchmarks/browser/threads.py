"""Training steps in WebAssembly with threads, in Node.js: `python -m benchmarks.browser.threads`.

Compares a library without threads with one with threads, by several numbers of these, each in a process, with
the same parameters and batch. They run alternately, and figures are the least of several rounds by the clock,
since threads share the work of a step but do not lessen it. All must have the same losses, to the bit.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import typer
from rich.console import Console

from benchmarks.browser.command import THREADED, NodeCompetitor, row_of, written
from benchmarks.cpu.rows import counted
from benchmarks.cpu.workloads import WORKLOADS
from benchmarks.harness import errors_in_a_line, processor
from benchmarks.options import Only, Rounds, Seconds, Threads, numbers
from benchmarks.race import Race
from benchmarks.records import Row
from benchmarks.tables import WHAT, names_of, reasons, table, times
from benchmarks.workloads import Workload, named
from catgrad.errors import ToolError

NAMES = "mlp,char-gpt"
CONSOLE = Console(width=150)


def measured(workload: Workload, threads: list[int], race: Race) -> Row:
    """Measure a workload without threads and by several numbers of them."""
    backends = {"catgrad wasm": "wasm"}
    backends |= {f"catgrad wasm, {counted(number)}": f"{THREADED}:{number}" for number in threads}
    every = [NodeCompetitor(name, "catgrad", word) for name, word in backends.items()]
    with tempfile.TemporaryDirectory() as folder:
        return row_of(workload, written(workload, Path(folder)), every, race)


def times_as_fast(row: Row) -> str:
    """Compare the last competitor with the first."""
    first, *_, last = (row.seconds(name) for name in row.results)
    return f"{first / last:.2f}" if first and last else "–"


def main(only: Only = NAMES, threads: Threads = "1,2", rounds: Rounds = 9, seconds: Seconds = 0.5) -> None:
    """Measure training steps of WebAssembly with threads."""
    race = Race(rounds, seconds, str, unit="clock", tolerance=0.0, middle=min)
    with errors_in_a_line(CONSOLE):
        rows = [
            measured(workload, numbers(threads), race)
            for workload in named(WORKLOADS, only, "python -m benchmarks.browser.threads")
        ]
        columns = {**WHAT, **times(names_of(rows)), "times as fast": times_as_fast}
        CONSOLE.print(table(rows, columns, processor()))
        if failed := reasons(rows):
            raise ToolError(
                "losses must not depend on threads", failed[0], "report this as a defect of catgrad"
            )


if __name__ == "__main__":
    typer.run(main)
