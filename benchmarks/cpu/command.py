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

import json
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import typer
from rich.console import Console
from rich.status import Status

from benchmarks import machine
from benchmarks.cpu import kept, roofline, tables
from benchmarks.cpu.competitors import EAGER, JAX, PYTORCH, competitors
from benchmarks.cpu.kept import Kept
from benchmarks.cpu.rows import Row
from benchmarks.cpu.trainer import trainer
from benchmarks.cpu.workloads import WORKLOADS, CpuWorkload, chosen
from benchmarks.harness import ROOT, errors_in_a_line
from benchmarks.processes import Competitor
from benchmarks.race import Race
from benchmarks.workloads import PREDICT, STEP, Workload

FULL, QUICK = (11, 0.2), (3, 0.05)
"""The number of rounds, and the seconds of one competitor in each."""
BUSY = 0.05
"""The load by other processes above which a warning is printed."""
CONSOLE = Console(width=180)


class Options(NamedTuple):
    """The numbers of threads and of rounds, the seconds of a competitor in each, and whether to keep rows."""

    threads: list[int]
    rounds: int
    seconds: float
    keep: bool = False


def written(workload: Workload, folder: Path) -> Path:
    """Return the folder in which the competitors find the workload."""
    place = folder / workload.name
    place.mkdir()
    (place / "workload.json").write_text(json.dumps(workload.spec()))
    np.savez(place / "data.npz", **workload.data())
    np.savez(place / "parameters.npz", **workload.parameters())
    return place


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
        Row(
            workload=workload.name,
            title=workload.title,
            measure=measure,
            threads=threads,
            operations=work[functions[measure]].operations,
            arrays=work[functions[measure]].arrays,
            goal=goal_of(workload, measure, every[0].word),
            speed_up=workload.speed_up,
            results=results,
        )
        for measure, results in race.run(every, place, threads, workload.measures).items()
    ]


def parts(
    workloads: tuple[CpuWorkload, ...], every: tuple[Competitor, ...], options: Options, status: Status
) -> Iterator[Kept]:
    """Measure a workload after the other, and print its rows."""
    status.update("the machine's peaks")
    facts, versions = kept.described(machine.peaks(), machine.busy()), sorted({*PYTORCH, *JAX})
    with tempfile.TemporaryDirectory() as folder:
        places = {workload.name: written(workload, Path(folder)) for workload in workloads}
        for count, workload in product(options.threads, workloads):
            where = f"{workload.name}, {tables.counted(count)}: "
            race = Race(
                min(options.rounds, workload.most_rounds), options.seconds,
                lambda text, where=where: status.update(where + text),
            )  # fmt: skip
            rows = rows_of(workload, every, places[workload.name], race, count)
            for row in rows:
                CONSOLE.print(tables.line(row, every[0].name), highlight=False)
            yield Kept(facts, versions, rows)
        if "char-gpt" in places:
            status.update("memory of a process that trains the character GPT")
            eager = next(each for each in every if each.name == EAGER)
            yield Kept(facts, versions, [], trainer(places["char-gpt"], (every[0], eager)))


def run(names: str, target: str, options: Options) -> bool:
    """Measure, print and keep; return whether catgrad never failed."""
    workloads, found = chosen(names), Kept(kept.described(machine.UNKNOWN, None), [], [])
    if options.keep:
        found = kept.added(found)
    with CONSOLE.status("installing peers") as status:
        every = competitors(target)
        for part in parts(workloads, every, options, status):
            found = found.with_part(part)
            if options.keep:
                found.write()
    ours = every[0].name
    tables.show(CONSOLE, found, ours)
    if options.keep:
        CONSOLE.print(f"kept in {kept.path_of(found.machine[kept.PROCESSOR]).relative_to(ROOT)}")
    busy = found.machine[kept.BUSY]
    if busy and busy > BUSY:
        CONSOLE.print(f"others used {busy:.0%} of this machine: times with more than one thread are wrong")
    return all(tables.complete(row, ours) for row in found.rows)


def shown() -> None:
    """Print the tables of the figures that were kept."""
    for found in kept.every():
        tables.show(CONSOLE, found, next(iter(found.rows[0].results)))


def main(
    only: Annotated[
        str, typer.Option(help=f"Workloads, with commas: {', '.join(w.name for w in WORKLOADS)}")
    ] = "",
    quick: Annotated[
        bool, typer.Option("--quick", help="Few short rounds, to see that all is well.")
    ] = False,
    target: Annotated[str, typer.Option(help="The target of ours that is measured.")] = "c",
    threads: Annotated[str, typer.Option(help="Numbers of threads, with commas.")] = "1,2",
    keep: Annotated[
        bool, typer.Option("--keep", help="Put the rows in place of those in the file of the processor.")
    ] = False,
    show: Annotated[
        bool, typer.Option("--show", help="Measure nothing, and print the figures of all files.")
    ] = False,
) -> None:
    """Measure training steps and predictions on the processor against named peers.

    A workload takes at most ten minutes for each number of threads, most of them in compilers of peers, and
    its rows are kept as soon as they are measured: --only, --threads and --keep measure all in parts.
    """
    if keep and (quick or target != "c"):
        raise typer.BadParameter("--keep is for whole rounds of the target c, without --quick and --target")
    try:
        counts = [int(count) for count in threads.split(",")]
    except ValueError:
        raise typer.BadParameter("--threads must be whole numbers with commas between, as 1,2") from None
    with errors_in_a_line(CONSOLE):
        if show:
            shown()
        elif not run(only, target, Options(counts, *(QUICK if quick else FULL), keep=keep)):
            raise typer.Exit(1)
