"""Bytes of a training step's arrays against time: `python -m benchmarks.c.memory`.

Time is counted in estimated operations of the kernels, in the order in which they run. Prints the table of
docs/explanation/memory.md, and with `--plot FILE` draws the figure: steps as they are, and in segments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Annotated

import typer
from catgrad.backends.c.machine import MACHINE

from benchmarks.cpu.workloads import WORKLOADS
from benchmarks.tables import markdown
from benchmarks.workloads import Workload
from catgrad import Task, emit
from catgrad.functors import evaluation
from catgrad.learn.fit.plot import COLOURS, figure, save
from catgrad.learn.recompute import segmented
from catgrad.loops.compile import compile_kernels
from catgrad.loops.ir.steps import Kernel, every_step
from catgrad.loops.memory_plan import Plan, planned
from catgrad.loops.passes.schedule.parallelise import work
from catgrad.programs.ports import Kind

DEEP = Workload(
    "deep",
    "MLP 784-512-512-512-10, batch 64",
    "perceptron",
    {"widths": (784, 512, 512, 512, 10), "activation": "relu", "last": "identity"},
    64,
)

SHOWN = {"resnet-8": 2, "char-gpt": 4}
"""Workloads that are drawn, with their numbers of segments."""

Curve = tuple[list[float], list[int]]
"""Operations up to each step, as a part of all, and the bytes alive in it."""


def recomputed(task: Task, segments: int) -> Task:
    """Checkpoint the model that is trained, in segments."""
    return replace(task, model=segmented(task.model, segments), inference=evaluation(task.model))


def curve(task: Task) -> tuple[Curve, Plan]:
    """Compile a training step; returns its bytes against time, and its memory plan."""
    function = emit(task, "c").program.kinds[Kind.STEP]
    lowered = compile_kernels(function, MACHINE, function.renewed())
    plan = planned(lowered, MACHINE.aligned_bytes, MACHINE.packing)
    steps = every_step(lowered.steps)
    costs = [sum(map(work, step.body)) if isinstance(step, Kernel) else 0 for step in steps]
    ends = [*accumulate(costs)]
    return ([end / ends[-1] for end in ends], list(map(int, plan.alive))), plan  # type: ignore[arg-type]


def table(workloads: Sequence[Workload]) -> None:
    """Print the workspace of each step: arrays, scratch memory, and in segments."""
    lines = []
    for workload in workloads:
        _, plan = curve(workload.task)
        counts = {n: int(curve(recomputed(workload.task, n))[1].total) for n in (2, 4, 8)}  # type: ignore[arg-type]
        best = min(counts, key=lambda n: counts[n])
        scratch = int(plan.total) - int(plan.size)  # type: ignore[arg-type]
        gain = f"{counts[best]:,} in {best}" if counts[best] < int(plan.total) else "–"  # type: ignore[arg-type]
        lines.append([workload.title, *(f"{size:,}" for size in (plan.total, plan.size, scratch)), gain])
    typer.echo(markdown(("step", "workspace in bytes", "arrays", "scratch", "in segments"), lines))


def draw(path: Path, workloads: Sequence[Workload]) -> None:
    """Draw the bytes against time of each workload, as it is and in segments."""
    picture = figure(10, 3.6)
    for panel, workload in zip(picture.subplots(1, len(workloads)), workloads, strict=True):
        count = SHOWN[workload.name]
        tasks = {"as emitted": workload.task, f"{count} segments": recomputed(workload.task, count)}
        for colour, (label, task) in zip(COLOURS, tasks.items(), strict=False):
            (times, sizes), _ = curve(task)
            panel.step(times, [size / 1e6 for size in sizes], where="pre", label=label, color=colour)
        panel.set(
            title=workload.title, xlabel="operations of the step", ylabel="MB of arrays", ylim=(0, None)
        )
        panel.xaxis.set_major_formatter(lambda part, _: f"{part:.0%}")
        panel.legend()
        panel.spines[["top", "right"]].set_visible(False)
    save(picture, path)


def main(plot: Annotated[Path | None, typer.Option(help="Draw the figure to this file.")] = None) -> None:
    """Print the table, or draw the figure."""
    known = {workload.name: workload for workload in (*WORKLOADS, DEEP)}
    if plot is not None:
        draw(plot, [known[name] for name in SHOWN])
    else:
        table([known[name] for name in ("mlp", "deep", "lenet", *SHOWN)])


if __name__ == "__main__":
    typer.run(main)
