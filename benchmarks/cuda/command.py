"""Training steps and kernels on an NVIDIA GPU: `python -m benchmarks.cuda --part PART`.

Compares the target `cuda` with PyTorch (eager, a CUDA graph captured by hand, and torch.compile, with TF32
and without, images also channels_last), and with trainkernel where it is installed. Each competitor is a
process; those of a row build their cases at the same time, and run in turn after their losses of ten steps
have been compared. Times are those between two CUDA events: after at least 20 calls to warm up, the median of
55 samples, each of as many calls as take 2 ms. GPT-2 is trained by one process after the other, since the
memory of a GPU does not hold all of them. Inputs are random. Kernels are compared with a copy and with
cuBLAS, measured in the same run. The kernels of each step are those that CUPTI records.

Parts are measured in the order of what matters most. A row is put into the file of its part in
benchmarks/results/cuda as soon as it is measured; `--minutes N` ends the run in time. The machine needs
PyTorch for CUDA and the packages that catgrad depends on, but no network and no installation of catgrad.
`--prebuild FOLDER` compiles our libraries on a machine without a GPU, `--libraries FOLDER` uses them; others
are compiled by nvcc.
`--device-check` first compares results on the GPU, and runs compute-sanitizer. With `--simulate`, our side
runs at few sizes in the simulator, and its results are compared with PyTorch's on the processor.
"""

from __future__ import annotations

import importlib.metadata
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from catgrad.backends.cuda.loading import LIBRARIES
from rich.console import Console

from benchmarks import records
from benchmarks.cuda import tables
from benchmarks.cuda.cases import names_of
from benchmarks.cuda.workloads import KERNELS, PARTS, TRAINKERNEL, GpuWorkload, parts_of, workloads_of
from benchmarks.harness import RESULTS, errors_in_a_line
from benchmarks.processes import Competitor, Process
from benchmarks.race import TOLERANCE, Race, Result, disagreement
from benchmarks.records import OURS, Record, Row
from benchmarks.tables import reasons
from benchmarks.workloads import STEP, written
from catgrad.errors import CatgradError, ToolError

CONSOLE = Console(width=190)
BF16_TOLERANCE = 2e-2
"""The relative tolerance of losses where the operands of products are rounded to 8 or 11 bits."""

NAMES = {
    "launches": "launches", "graph": "CUDA graph", "many": "many steps a call", "eager": "eager",
    "tf32": "TF32", "cublaslt": "cuBLASLt", "channels_last": "channels_last",
}  # fmt: skip
"""The names in tables of the parts of a word."""


def competitors(workload: GpuWorkload) -> tuple[Competitor, ...]:
    """Return catgrad and the peers of a workload, those of a lower precision first: the last is judged by."""
    every = [*map(ours, workload.ours), *map(peer, workload.peers)]
    return tuple(sorted(every, key=lambda each: each.tolerance is None))


def ours(word: str) -> Competitor:
    """Return the competitor of catgrad of a word."""
    return Competitor(f"{OURS}, {_named(word)}", "cuda_emitted", word, tolerance=_tolerance(word))


def peer(word: str) -> Competitor:
    """Return the competitor of a word: `parts` compile the model with its loss, `whole` the whole step."""
    if word == TRAINKERNEL:
        missing = "" if find_spec("trainkernel") else "not installed: pip install trainkernel==0.2.0"
        return Competitor("trainkernel", "trainkernel_step", missing=missing)
    form, _, rest = word.partition("/")
    name = f"torch.compile {_named(rest)}" if form in ("whole", "parts") else f"PyTorch {_named(word)}"
    return Competitor(name, "torch_gpu", word, tolerance=_tolerance(word))


def _named(word: str) -> str:
    return ", ".join(NAMES.get(part, part) for part in word.split("/"))


def _tolerance(word: str) -> float | None:
    return BF16_TOLERANCE if "tf32" in word.split("/") else None


class Limit:
    """The time in which a measurement ends by itself; none for 0 minutes."""

    def __init__(self, minutes: float) -> None:
        self.end = time.monotonic() + minutes * 60 if minutes else float("inf")

    def left(self) -> float:
        """Return the seconds that are left."""
        return self.end - time.monotonic()


def raced(
    workload: GpuWorkload, every: Sequence[Competitor], place: Path, limit: Limit
) -> Iterator[dict[str, Result]]:
    """Race competitors, all in turn, or one after the other if memory does not hold them all.

    Yields all results so far after each race.
    """
    from benchmarks.cuda.clock import ROUNDS, SAMPLE_SECONDS

    tolerance = TOLERANCE if workload.precision == "float32" else BF16_TOLERANCE
    results: dict[str, Result] = {}
    with CONSOLE.status(workload.title) as status:

        def say(text: str) -> None:
            status.update(f"{workload.name}: {text}")

        race = Race(ROUNDS, SAMPLE_SECONDS, say, "device", tolerance, True, True, limit.left)
        for group in [[each] for each in every] if workload.alone else [list(every)]:
            results |= race.run(group, place, os.cpu_count() or 1, (STEP,))[STEP]
            yield results
    known = next((r.losses for r in reversed(list(results.values())) if r.losses), [])
    for each in every:
        result = results[each.name]
        if found := disagreement(result.losses, known, each.tolerance or tolerance) if result.losses else "":
            result.rounds, result.seconds, result.reason = [], None, found
    yield results


def step_rows(part: str, limit: Limit) -> Iterator[Row]:
    """Measure the steps of a part; a row is given again when more of it is known."""
    with tempfile.TemporaryDirectory() as folder:
        for workload in workloads_of(part):
            if limit.left() <= 0:
                return
            row = None
            place = written(workload, Path(folder))
            for results in raced(workload, competitors(workload), place, limit):
                row = tables.step_row(workload, results)
                yield row
            for line in tables.shares(row) if row else ():
                CONSOLE.print(line, highlight=False, markup=False)


def kernel_rows(part: str, limit: Limit) -> Iterator[Row]:
    """Measure the kernels of a part, in a process that is started again if one of them ends it."""
    worker = Competitor("kernels", "gpu_kernels_worker", part)
    rest, ceilings = names_of(part), dict[str, float]()
    with tempfile.TemporaryDirectory() as folder:
        while rest and limit.left() > 0:
            with Process(worker, Path(folder), os.cpu_count() or 1, limit.left) as process:
                try:
                    process.answer()
                    ceilings = ceilings or process.ask("ceilings")
                    while rest and limit.left() > 0:
                        found = process.ask("measure", kernel=rest[0])
                        yield tables.kernel_row(part, rest.pop(0), found, ceilings)
                except ToolError as error:
                    yield tables.failed_kernel(part, rest.pop(0), error.found)


@contextmanager
def continued(part: str) -> Iterator[None]:
    """Say why a part has ended early, and go on with the next one."""
    try:
        yield
    except CatgradError as error:
        CONSOLE.print(f"{part} ended: {error}", highlight=False, markup=False)


def machine(needs_compiler: bool = False) -> dict[str, Any]:
    """Describe the GPU. Raises: ToolError without PyTorch or a GPU, or nvcc where it is needed."""
    from catgrad.backends.cuda.tools import NVCC

    if not find_spec("torch"):
        raise ToolError("benchmarks.cuda must have PyTorch", "it is not installed", "install torch for CUDA")
    import torch

    from benchmarks.cuda.clock import card

    if not torch.cuda.is_available():
        raise ToolError(
            "benchmarks.cuda must measure on an NVIDIA GPU",
            "PyTorch finds none",
            "run it on a machine that has one, or check its programs with --simulate",
        )
    if needs_compiler:
        NVCC.require("benchmarks.cuda")
    return card()


def versions() -> dict[str, str]:
    """Return the versions of what is compared."""
    import torch
    from catgrad.backends.cuda.tools import NVCC

    more = {"trainkernel": importlib.metadata.version("trainkernel")} if find_spec("trainkernel") else {}
    nvcc = NVCC.version() if NVCC.is_installed() else ""
    return {"torch": torch.__version__, "cuda of torch": torch.version.cuda, "nvcc": nvcc, **more}


def measure(part: str, out: Path, limit: Limit) -> None:
    """Measure a part, keep each of its rows as soon as there is one, and print its table."""
    path, names = out / f"{part}.json", set[str]()
    empty = Record("python -m benchmarks.cuda", [], records.described(**machine()), versions())
    found = records.added(empty, path)
    is_kernels = part in KERNELS
    for row in kernel_rows(part, limit) if is_kernels else step_rows(part, limit):
        names.add(row.what)
        found = found.with_part(replace(empty, rows=[row]))
        found.write(path)
    rows = [row for row in found.rows if row.what in names]
    CONSOLE.print(tables.kernel_table(rows) if is_kernels else tables.step_table(rows))
    for reason in reasons(rows):
        CONSOLE.print(reason, highlight=False, markup=False)


def main(
    part: Annotated[str, typer.Option(help=f"One of {', '.join(PARTS)}; all by default.")] = "",
    simulate: Annotated[bool, typer.Option("--simulate", help="Check our side without a GPU.")] = False,
    minutes: Annotated[float, typer.Option(help="End after these minutes, with the rows so far.")] = 0,
    prebuild: Annotated[
        Path | None, typer.Option(help="Only compile our libraries into this folder, without a GPU.")
    ] = None,
    architectures: Annotated[str, typer.Option(help="Of --prebuild, with commas.")] = "sm_90a",
    libraries: Annotated[
        Path | None, typer.Option(help="Use the libraries in this folder, where it has them.")
    ] = None,
    device_check: Annotated[
        bool, typer.Option("--device-check", help="First compare results on the GPU, and find races.")
    ] = False,
    out: Annotated[Path, typer.Option(help="The folder of a file for each part.")] = RESULTS / "cuda",
) -> None:
    """Measure training steps and kernels on an NVIDIA GPU against named peers, what matters most first."""
    limit = Limit(minutes)
    with errors_in_a_line(CONSOLE):
        parts = parts_of(part)
        if simulate:
            from benchmarks.cuda.simulation import simulated

            for line in (line for each in parts for line in simulated(each)):
                CONSOLE.print(line, highlight=False)
            return
        if prebuild:
            from benchmarks.cuda.prebuild import prebuilt

            for line in prebuilt(parts, prebuild, architectures.split(","), bool(device_check)):
                CONSOLE.print(line, highlight=False, markup=False)
            return
        CONSOLE.print(machine(needs_compiler=not libraries))
        if libraries:
            os.environ[LIBRARIES] = str(libraries.absolute())
        if device_check:
            from benchmarks.cuda.check import checked

            for line in checked(limit.left):
                CONSOLE.print(line, highlight=False, markup=False)
        for each in parts:
            if limit.left() > 0:
                with continued(each):
                    measure(each, out, limit)
        CONSOLE.print(f"kept in {out}")
