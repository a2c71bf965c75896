"""Training steps on the processor: `python -m benchmarks.cpu`.

Compares the target `c` with PyTorch (eager, torch.compile, AOTInductor), JAX and ONNX Runtime, each in a
separate process with one thread, then with two. The competitors of a row run alternately, after their losses
of ten steps have been compared; 64 steps in one call are compared with JAX's `lax.scan`, as no other peer has
such a call. Figures are medians, of processor time with one thread and of wall time with more. Peers get
virtual environments under .cache at first use. llm.c is omitted: it is not a package, and was never the
fastest peer. A complete run takes half an hour; only its figures are kept, in benchmarks/results/cpu.json.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from itertools import product
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from rich.console import Console

from benchmarks import machine, tables
from benchmarks.cpu_workloads import WORKLOADS, chosen
from benchmarks.harness import errors_in_a_line, peer_python
from benchmarks.processes import Competitor
from benchmarks.race import Race
from benchmarks.tables import Row
from benchmarks.trainer import Trainer, trainer
from benchmarks.workloads import PREDICT, Workload

PYTORCH = ("torch==2.13.0", "numpy==2.4.6", "onnx==1.23.2", "onnxruntime==1.31.1")
JAX = ("jax==0.10.2", "numpy==2.4.6")
FULL, QUICK = (11, 0.2), (3, 0.05)
"""The number of rounds, and the seconds of one competitor in each."""
BUSY = 0.05
"""The load by other processes above which a warning is printed."""
CONSOLE = Console(width=150)


class Options(NamedTuple):
    """The number of threads and of rounds, and the seconds of one competitor in each."""

    threads: list[int]
    rounds: int
    seconds: float


class Measured(NamedTuple):
    """The results of a run."""

    peak: float
    rows: list[Row]
    trainer: Trainer | None


def interpreter(name: str, requirements: tuple[str, ...]) -> dict[str, Any]:
    """Return the Python of an environment with these packages, or the reason why there is none."""
    try:
        return {"python": peer_python(name, *requirements)}
    except (subprocess.CalledProcessError, OSError) as error:
        return {"missing": f"not installed: {error}"}


def competitors(target: str) -> tuple[Competitor, ...]:
    """Return the competitors: catgrad, then all peers."""
    pytorch, jax = interpreter("pytorch-2.13", PYTORCH), interpreter("jax-0.10", JAX)
    return (
        Competitor(f"catgrad {target}", "catgrad_emitted", target),
        Competitor(f"catgrad {target}{tables.ANY_BATCH}", "catgrad_emitted", f"{target}/any"),
        Competitor("PyTorch eager", "torch_eager", **pytorch),
        Competitor("PyTorch eager, channels_last", "torch_eager", "channels_last", **pytorch),
        Competitor("torch.compile", "torch_compiled", **pytorch),
        Competitor("AOTInductor", "torch_exported", **pytorch),
        Competitor("JAX jit", "jax_jit", **jax),
        Competitor("ONNX Runtime", "onnx_runtime", **pytorch),
    )


def written(workload: Workload, folder: Path) -> Path:
    """Return the folder in which the competitors find the workload."""
    place = folder / workload.name
    place.mkdir()
    (place / "workload.json").write_text(json.dumps(workload.spec()))
    np.savez(place / "data.npz", **workload.data())
    np.savez(place / "parameters.npz", **workload.parameters())
    return place


def rows_of(
    workload: Workload, every: tuple[Competitor, ...], place: Path, race: Race, threads: int
) -> list[Row]:
    """Return the figures of one workload."""
    measured = race.run(every, place, threads, workload.measures)
    return [
        Row(
            workload=workload.name,
            title=workload.title,
            measure=measure,
            threads=threads,
            operations=machine.operations(workload.task, "predict" if measure == PREDICT else "step"),
            goal=workload.goal.get(measure),
            results=results,
        )
        for measure, results in measured.items()
    ]


def measured(workloads: tuple[Workload, ...], every: tuple[Competitor, ...], options: Options) -> Measured:
    """Measure all workloads, and print each row as soon as it is measured."""
    with CONSOLE.status("the machine's peak") as status, tempfile.TemporaryDirectory() as folder:
        peak = machine.peak()
        places = {workload.name: written(workload, Path(folder)) for workload in workloads}
        rows: list[Row] = []
        for count, workload in product(options.threads, workloads):
            where = f"{workload.name}, {tables.counted(count)}: "
            race = Race(
                options.rounds, options.seconds, lambda text, where=where: status.update(where + text)
            )
            rows += rows_of(workload, every, places[workload.name], race, count)
            for row in rows[-len(workload.measures) :]:
                CONSOLE.print(tables.line(row, every[0].name), highlight=False)
        status.update("memory of a process that trains the character GPT")
        kept = trainer(places["char-gpt"], every[:2]) if "char-gpt" in places else None
    return Measured(peak, rows, kept)


def installed(target: str) -> tuple[Competitor, ...]:
    """Return all competitors, ours first."""
    with CONSOLE.status("installing peers"):
        return competitors(target)


def run(names: str, target: str, options: Options) -> bool:
    """Measure, print and keep; return whether catgrad never failed."""
    workloads, every, busy = chosen(names), installed(target), machine.busy()
    if busy and busy > BUSY:
        CONSOLE.print(f"others use {busy:.0%} of this machine: times with more than one thread will be wrong")
    found, ours = measured(workloads, every, options), every[0].name
    tables.show(CONSOLE, found.rows, ours, found.peak, found.trainer)
    if workloads == WORKLOADS and (options.rounds, options.seconds) == FULL and target == "c":
        versions = sorted({*PYTORCH, *JAX})
        CONSOLE.print(f"kept in {tables.keep(found.rows, found.peak, busy, found.trainer, versions)}")
    return all(tables.complete(row, ours) for row in found.rows)


def main(
    only: Annotated[
        str, typer.Option(help=f"Workloads, with commas: {', '.join(w.name for w in WORKLOADS)}")
    ] = "",
    quick: Annotated[
        bool, typer.Option("--quick", help="Few short rounds, to see that all is well.")
    ] = False,
    target: Annotated[str, typer.Option(help="The target of ours that is measured.")] = "c",
    threads: Annotated[str, typer.Option(help="Numbers of threads, with commas.")] = "1,2",
) -> None:
    """Measure training steps and predictions on the processor against named peers.

    A whole run takes half an hour on a machine that does nothing else, and is kept in
    benchmarks/results/cpu.json; a part of it is printed only.
    """
    try:
        counts = [int(count) for count in threads.split(",")]
    except ValueError:
        raise typer.BadParameter("--threads must be whole numbers with commas between, as 1,2") from None
    with errors_in_a_line(CONSOLE):
        if not run(only, target, Options(counts, *(QUICK if quick else FULL))):
            raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
