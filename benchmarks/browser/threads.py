"""Training steps in WebAssembly with threads, in Node.js: `python -m benchmarks.browser.threads`.

Compares a library without threads with one with threads, by several numbers of these, each in a process, with
the same parameters and batch. They run alternately, and figures are the least of several rounds by the clock,
since threads share the work of a step but do not lessen it. All must have the same losses, to the bit.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer
from catgrad.backends.host.process import JsonProcess
from rich.console import Console
from rich.table import Table

from benchmarks.browser.command import PEERS, PROGRAMS, THREADED, WARM_STEPS, written
from benchmarks.cpu.workloads import WORKLOADS
from benchmarks.harness import duration, errors_in_a_line, processor
from benchmarks.workloads import Workload, named
from catgrad.errors import ToolError

NAMES = "mlp,char-gpt"
CONSOLE = Console(width=150)


def measured(place: Path, backends: list[str], rounds: int, seconds: float) -> dict[str, float]:
    """Return the least time of a step of each, from those of several rounds. Raises: ToolError"""
    processes = {}
    for each in backends:
        command = ["node", PROGRAMS / "worker.mjs", PROGRAMS / "catgrad.mjs", place, PEERS, each]
        processes[each] = JsonProcess(each, command)
    warm = {each: process.exchange(each, {"steps": WARM_STEPS}) for each, process in processes.items()}
    if failed := next((answer["error"] for answer in warm.values() if "error" in answer), ""):
        raise ToolError("the module must train", failed, "report this as a defect of catgrad")
    if len({answer["loss"] for answer in warm.values()}) > 1:
        raise ToolError("losses must not depend on threads", str(warm), "report this as a defect of catgrad")
    count = max(1, int(seconds * WARM_STEPS / warm[backends[0]]["elapsed"]))
    times = dict.fromkeys(backends, float("inf"))
    for _ in range(rounds):
        for each, process in processes.items():
            answer = process.exchange(each, {"steps": count})
            times[each] = min(times[each], answer["elapsed"] / count)
    for process in processes.values():
        process.close()
    return times


def row_of(workload: Workload, threads: list[int], rounds: int, seconds: float) -> list[str]:
    """Measure a workload without threads and by several numbers of them; returns the cells of its row."""
    backends = ["wasm", *(f"{THREADED}:{number}" for number in threads)]
    with tempfile.TemporaryDirectory() as folder:
        times = measured(written(workload, Path(folder)), backends, rounds, seconds)
    return [workload.title, *map(duration, times.values()), f"{times['wasm'] / times[backends[-1]]:.2f}"]


def main(
    only: Annotated[str, typer.Option(help="Names of workloads, with commas between.")] = NAMES,
    threads: Annotated[str, typer.Option(help="Numbers of threads, with commas between.")] = "1,2",
    rounds: Annotated[int, typer.Option(help="Rounds of each.")] = 9,
    seconds: Annotated[float, typer.Option(help="Seconds of each in a round.")] = 0.5,
) -> None:
    """Measure training steps of WebAssembly with threads."""
    numbers = [int(number) for number in threads.split(",")]
    named_threads = [f"{number} thread{'s' if number > 1 else ''}" for number in numbers]
    table = Table("step", "wasm", *named_threads, "times as fast", title=processor())
    with errors_in_a_line(CONSOLE):
        for workload in named(WORKLOADS, only, "python -m benchmarks.browser.threads"):
            table.add_row(*row_of(workload, numbers, rounds, seconds))
        CONSOLE.print(table)


if __name__ == "__main__":
    typer.run(main)
