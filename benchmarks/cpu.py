"""Training steps on the processor: `python -m benchmarks.cpu`.

What the target `c` emits beside PyTorch (eager, torch.compile, AOTInductor), JAX and ONNX Runtime, each in
a process of its own with one thread, then with two. All competitors of a row take turns in one run, after
their losses have been found equal for ten steps; figures are medians, of processor time with one thread and
of wall time with more. Peers get virtual environments of their own under .cache at first use. llm.c is left
out: it is no package, and was never the best peer. A whole run takes half an hour; only such a run is kept,
in benchmarks/results/cpu.json.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from benchmarks import machine, tables
from benchmarks.harness import peer_python
from benchmarks.processes import Competitor
from benchmarks.race import Race
from benchmarks.tables import Row
from benchmarks.trainer import Trainer, trainer
from benchmarks.workloads import PREDICT, STEP, WORKLOADS, Workload, chosen
from catgrad.errors import CatgradError

PYTORCH = ("torch==2.13.0", "numpy==2.4.6", "onnx==1.23.2", "onnxruntime==1.31.1")
JAX = ("jax==0.10.2", "numpy==2.4.6")
FULL, QUICK = (11, 0.2), (3, 0.05)
"""How many rounds there are, and the seconds that each takes one competitor."""
CONSOLE = Console(width=150)


def interpreter(name: str, requirements: tuple[str, ...]) -> dict[str, Any]:
    """The Python of an environment with these packages, or why there is none."""
    try:
        return {"python": peer_python(name, *requirements)}
    except (subprocess.CalledProcessError, OSError) as error:
        return {"missing": f"not installed: {error}"}


def competitors(target: str) -> tuple[Competitor, ...]:
    """Ours, then all peers."""
    pytorch, jax = interpreter("pytorch-2.13", PYTORCH), interpreter("jax-0.10", JAX)
    return (
        Competitor(f"catgrad {target}", "catgrad_emitted", target),
        Competitor("PyTorch eager", "torch_eager", **pytorch),
        Competitor("torch.compile, model", "torch_compiled", "parts", **pytorch),
        Competitor("torch.compile, whole step", "torch_compiled", "whole", **pytorch),
        Competitor("AOTInductor", "torch_exported", **pytorch),
        Competitor("JAX jit", "jax_jit", **jax),
        Competitor("ONNX Runtime", "onnx_runtime", **pytorch),
    )


def written(workload: Workload, folder: Path) -> Path:
    """The folder in which the competitors find the workload."""
    place = folder / workload.name
    place.mkdir()
    (place / "workload.json").write_text(json.dumps(workload.words()))
    np.savez(place / "data.npz", **workload.data())
    np.savez(place / "parameters.npz", **workload.parameters())
    return place


def rows_of(
    workload: Workload, every: tuple[Competitor, ...], place: Path, race: Race, threads: int
) -> list[Row]:
    """The figures of one workload."""
    measured = race.run(every, place, threads, workload.measures)
    return [
        Row(
            workload=workload.name,
            title=workload.title,
            measure=measure,
            threads=threads,
            operations=machine.operations(workload.task, "predict" if measure == PREDICT else "train_step"),
            wanted=workload.wanted.get(measure),
            results=results,
            stepwise=measured.get(STEP, {}),
        )
        for measure, results in measured.items()
    ]


def saying(status: Any) -> Callable[[str, str], Callable[[str], None]]:
    """What tells which part runs, under the name of the workload."""
    return lambda name, threads: lambda text: status.update(f"{name}, {threads}: {text}")


def run(names: str, target: str, quick: bool, threads: list[int]) -> bool:
    """Measure, print and keep; whether nothing of ours failed."""
    workloads = chosen(names)
    with CONSOLE.status("installing peers") as status, tempfile.TemporaryDirectory() as folder:
        every = competitors(target)
        best, say = machine.peak(), saying(status)
        places = {workload.name: written(workload, Path(folder)) for workload in workloads}
        rows: list[Row] = []
        for count in threads:
            for workload in workloads:
                race = Race(*(QUICK if quick else FULL), say(workload.name, tables.counted(count)))
                new = rows_of(workload, every, places[workload.name], race, count)
                for row in new:
                    CONSOLE.print(tables.line(row, every[0].name), highlight=False)
                rows += new
        kept: Trainer | None = None
        if "char-gpt" in places:
            status.update("char-gpt: memory of a process that trains")
            kept = trainer(places["char-gpt"], every[:2])
    tables.show(CONSOLE, rows, every[0].name, best, kept)
    if len(workloads) == len(WORKLOADS) and not quick and target == "c":
        versions = sorted({*PYTORCH, *JAX})
        CONSOLE.print(f"kept in {tables.keep(rows, best, kept, versions)}")
    return all(tables.complete(row, every[0].name) for row in rows)


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
    """Measure training steps and predictions on the processor against named peers."""
    try:
        counts = [int(count) for count in threads.split(",")]
    except ValueError:
        raise typer.BadParameter("--threads must be whole numbers with commas between, as 1,2") from None
    try:
        if not run(only, target, quick, counts):
            raise typer.Exit(1)
    except CatgradError as error:
        CONSOLE.print(f"{type(error).__name__}: {error}", highlight=False, markup=False)
        raise typer.Exit(2) from None


if __name__ == "__main__":
    typer.run(main)
