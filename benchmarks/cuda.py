"""Training steps and kernels on an NVIDIA GPU: `python -m benchmarks.cuda --part PART`.

Compares the target `cuda` with PyTorch (eager, a CUDA graph captured by hand, and torch.compile in three
modes), and with trainkernel where it is installed. Each competitor is a process; those of a row run in turn,
after their losses of ten steps have been compared. Times are those between two CUDA events: after at least
20 calls to warm up, the median of 55 samples, each of as many calls as take 2 ms. GPT-2 is trained by one
process after the other, since the memory of a GPU does not hold all of them. Inputs are random. Kernels are
compared with a copy and with cuBLAS, measured in the same run.

Each part is meant to take at most ten minutes; its rows replace those of the part in
benchmarks/results/cuda.json. The machine needs PyTorch for CUDA, nvcc and the packages that catgrad depends
on, but no network. With `--simulate`, our side runs at few sizes in the simulator, and its results are
compared with PyTorch's on the processor.
"""

from __future__ import annotations

import importlib.metadata
import os
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks import gpu_tables as tables
from benchmarks.gpu_workloads import KERNELS, PARTS, TRAINKERNEL, GpuWorkload, parts_of, workloads_of
from benchmarks.harness import RESULTS, errors_in_a_line
from benchmarks.processes import Competitor
from benchmarks.race import TOLERANCE, Race, Result, disagreement
from benchmarks.workloads import STEP
from catgrad.errors import ToolError

CONSOLE = Console(width=190)
BF16_TOLERANCE = 2e-2
"""The relative tolerance of losses where the operands of products are rounded to 8 or 11 bits."""

OURS = (
    Competitor(f"{tables.OURS}, launches", "cuda_emitted", "launches"),
    Competitor(f"{tables.OURS}, CUDA graph", "cuda_emitted", "graph"),
    Competitor(tables.MANY, "cuda_emitted", "many"),
)
FORMS = {"eager": "PyTorch eager", "graph": "PyTorch CUDA graph"}


def competitors(workload: GpuWorkload) -> tuple[Competitor, ...]:
    """Return catgrad and the peers of a workload."""
    ours = [each for each in OURS if each.name != tables.MANY] if workload.alone else OURS
    return (*ours, *map(peer, workload.peers))


def peer(word: str) -> Competitor:
    """Return the competitor of a word: `parts` compile the model with its loss, `whole` the whole step."""
    if word == TRAINKERNEL:
        missing = "" if find_spec("trainkernel") else "not installed: pip install trainkernel==0.2.0"
        return Competitor("trainkernel", "trainkernel_step", missing=missing)
    return Competitor(FORMS.get(word, f"torch.compile {word.partition('/')[2]}"), "torch_gpu", word)


def raced(workload: GpuWorkload, every: Sequence[Competitor], place: Path) -> dict[str, Result]:
    """Race competitors: all in turn, or one after the other if memory does not hold them all."""
    from benchmarks.gpu_clock import ROUNDS, SAMPLE_SECONDS

    with CONSOLE.status(workload.title) as status:
        tolerance = TOLERANCE if workload.precision == "float32" else BF16_TOLERANCE
        race = Race(
            ROUNDS,
            SAMPLE_SECONDS,
            lambda text: status.update(f"{workload.name}: {text}"),
            "device",
            tolerance,
        )
        groups = [[each] for each in every] if workload.alone else [list(every)]
        cores = os.cpu_count() or 1
        results = {
            name: result
            for group in groups
            for name, result in race.run(group, place, cores, (STEP,))[STEP].items()
        }
    known = next((r.losses for r in reversed(list(results.values())) if r.losses), [])
    for result in results.values():
        if result.losses and (found := disagreement(result.losses, known, tolerance)):
            result.rounds, result.seconds, result.reason = [], None, found
    return results


def step_rows(part: str) -> list[tables.Row]:
    """Measure the steps of a part."""
    from benchmarks.cpu import written

    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for workload in workloads_of(part):
            place = written(workload, Path(folder))
            rows.append(tables.step_row(workload, raced(workload, competitors(workload), place)))
    CONSOLE.print(tables.step_table(rows))
    for reason in tables.reasons(rows):
        CONSOLE.print(reason, highlight=False, markup=False)
    return rows


def kernel_rows() -> tuple[list[tables.Row], dict[str, float]]:
    """Measure kernels and ceilings."""
    import numpy as np

    from benchmarks import gpu_kernels

    with CONSOLE.status("ceilings, then kernels"):
        ceilings = gpu_kernels.ceilings()
        rows = [
            tables.kernel_row(case.name, each, gpu_kernels.measured(each), ceilings)
            for case, each in gpu_kernels.bindings(np.random.default_rng(0), simulate=False)
        ]
        update = gpu_kernels.adamw(gpu_kernels.UPDATED, simulate=False)
        rows.append(tables.kernel_row("AdamW", update, gpu_kernels.measured(update), ceilings))
    CONSOLE.print(tables.kernel_table(rows), ceilings)
    return rows, ceilings


def machine() -> dict[str, Any]:
    """Describe the GPU and all versions. Raises: ToolError without PyTorch, a GPU or nvcc."""
    from catgrad.backends.cuda.tools import NVCC

    if not find_spec("torch"):
        raise ToolError("benchmarks.cuda must have PyTorch", "it is not installed", "install torch for CUDA")
    import torch

    from benchmarks.gpu_clock import card

    if not torch.cuda.is_available():
        raise ToolError(
            "benchmarks.cuda must measure on an NVIDIA GPU",
            "PyTorch finds none",
            "run it on a machine that has one, or check its programs with --simulate",
        )
    NVCC.require("benchmarks.cuda")
    versions = {"trainkernel": importlib.metadata.version("trainkernel")} if find_spec("trainkernel") else {}
    return card() | versions | {"nvcc": NVCC.version()}


def measure(part: str, out: Path) -> None:
    """Measure a part, print its table, and keep its rows."""
    described = machine()
    CONSOLE.print(described)
    rows, more = kernel_rows() if part == KERNELS else (step_rows(part), {})
    path = out / "cuda.json"
    tables.keep(path, part, rows, described | more)
    CONSOLE.print(f"kept in {path}")


def main(
    part: Annotated[str, typer.Option(help=f"One of {', '.join(PARTS)}; all by default.")] = "",
    simulate: Annotated[bool, typer.Option("--simulate", help="Check our side without a GPU.")] = False,
    out: Annotated[Path, typer.Option(help="The folder of cuda.json.")] = RESULTS,
) -> None:
    """Measure training steps and kernels on an NVIDIA GPU against named peers, in parts of ten minutes."""
    with errors_in_a_line(CONSOLE):
        for each in parts_of(part):
            if simulate:
                from benchmarks.gpu_simulation import simulated

                for line in simulated(each):
                    CONSOLE.print(line, highlight=False)
            else:
                measure(each, out)


if __name__ == "__main__":
    typer.run(main)
