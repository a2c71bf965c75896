"""Training steps on the processor: `python -m benchmarks.cpu`.

Compares the target `c` with PyTorch (eager in both memory formats, torch.compile, AOTInductor), JAX and
ONNX Runtime, each in a separate process with one thread, then with two; and with itself where the size of the
batch is a symbol. The target `numpy` is compared with PyTorch eager only. The competitors of a row run
alternately, after their losses of ten steps have been compared; 64 steps in one call are compared with JAX's
`lax.scan`, as no other peer has such a call. Figures are medians, of processor time with one thread and of
wall time with more; the least time that the machine needs stands beside them (benchmarks.cpu.roofline). Peers
get virtual environments under .cache at first use. llm.c is omitted: it is not a package, and was never the
fastest peer. `--only NAMES --keep` measures a part and puts its rows in benchmarks/results/cpu, where each
processor has a file; `--show` prints the tables of all.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.status import Status

from benchmarks import machine
from benchmarks.cpu import kept, roofline, tables
from benchmarks.cpu.competitors import EAGER, JAX, PYTORCH, competitors
from benchmarks.cpu.rows import counted, row_of, timed
from benchmarks.cpu.trainer import trainer
from benchmarks.cpu.workloads import CpuWorkload, chosen
from benchmarks.harness import errors_in_a_line
from benchmarks.options import FULL, QUICK, Keep, Only, Quick, Show, Threads, numbers
from benchmarks.processes import Competitor
from benchmarks.race import Race
from benchmarks.records import Record, Row, read
from benchmarks.workloads import PREDICT, STEP, written

CONSOLE = Console(width=180)


def goal_of(workload: CpuWorkload, measure: str, target: str) -> float | None:
    """Return the target of the ratio of the time on a target to the best peer's, if there is one."""
    if target == "numpy":
        return workload.goal_on_numpy if measure == STEP else None
    return workload.goal.get(measure)


def rows_of(
    workload: CpuWorkload, every: tuple[Competitor, ...], place: Path, race: Race, threads: int
) -> list[Row]:
    """Return the figures of one workload."""
    functions = {measure: PREDICT if measure == PREDICT else STEP for measure in workload.measures}
    work = {name: roofline.work(workload.task, name) for name in dict.fromkeys(functions.values())}
    return [
        row_of(
            workload,
            measure,
            threads,
            work[functions[measure]],
            goal_of(workload, measure, every[0].word),
            results,
        )
        for measure, results in race.run(every, place, threads, workload.measures).items()
    ]


def parts(
    workloads: tuple[CpuWorkload, ...],
    every: tuple[Competitor, ...],
    threads: list[int],
    race: Callable[..., Race],
    status: Status,
) -> Iterator[Record]:
    """Measure a workload after the other, and print its rows."""
    status.update("the machine's peaks")
    part_of = partial(kept.part_of, machine.peaks(), machine.busy(), [*PYTORCH, *JAX])
    with tempfile.TemporaryDirectory() as folder:
        places = {workload.name: written(workload, Path(folder)) for workload in workloads}
        for count, workload in product(threads, workloads):
            where = f"{workload.name}, {counted(count)}: "
            one = race(say=lambda text, where=where: status.update(where + text))
            one = replace(one, rounds=min(one.rounds, workload.most_rounds))
            rows = rows_of(workload, every, places[workload.name], one, count)
            for row in rows:
                CONSOLE.print(tables.line(row), highlight=False)
            yield part_of(rows)
        if "char-gpt" in places:
            status.update("memory of a process that trains the character GPT")
            eager = next(each for each in every if each.name == EAGER)
            yield part_of([trainer(places["char-gpt"], (every[0], eager))])


def run(names: str, target: str, threads: list[int], race: Callable[..., Race], keep: bool) -> bool:
    """Measure, print and keep; return whether catgrad never failed."""
    workloads, found = chosen(names), kept.part_of(machine.UNKNOWN, None, [], [])
    path = kept.path_of(found)
    if keep and path.exists():
        found = read(path)
    with CONSOLE.status("installing peers") as status:
        every = competitors(target)
        for part in parts(workloads, every, threads, race, status):
            found = kept.with_means(kept.joined(found, part))
            if keep:
                found.write(path)
    tables.show(CONSOLE, found)
    if keep:
        found.keep(path)
    return all(tables.is_complete(row) for row in timed(found))


def main(
    only: Only = "",
    quick: Quick = False,
    target: Annotated[str, typer.Option(help="The target of ours that is measured.")] = "c",
    threads: Threads = "1,2",
    keep: Keep = False,
    show: Show = False,
) -> None:
    """Measure training steps and predictions on the processor against named peers.

    A workload takes at most ten minutes for each number of threads, most of them in compilers of peers, and
    its rows are kept as soon as they are measured: --only, --threads and --keep measure all in parts.
    """
    if keep and (quick or target != "c"):
        raise typer.BadParameter("--keep is for whole rounds of the target c, without --quick and --target")
    counts = numbers(threads)
    with errors_in_a_line(CONSOLE):
        if show:
            for found in kept.every():
                tables.show(CONSOLE, found)
        elif not run(only, target, counts, partial(Race, *(QUICK if quick else FULL)), keep):
            raise typer.Exit(1)
