"""Training steps and kernels on an NVIDIA GPU: `python -m benchmarks.cuda --part PART`.

Compares the target `cuda` with PyTorch (eager, a CUDA graph captured by hand, and torch.compile, with TF32
and without, images also channels_last), and with trainkernel where it is installed. Each competitor is a
process; those of a row build their cases at the same time, and run in turn after their losses of ten steps
have been compared. Times are those between two CUDA events: after at least 20 calls to warm up, the median of
55 samples, each of as many calls as take 2 ms. GPT-2 is trained by one process after the other where the
memory of a GPU does not hold all of them. Inputs are random. Kernels are compared with a copy and with
cuBLAS, measured in the same run. The kernels of each step are those that CUPTI records.

Kernels are measured first. Then the steps of all parts that are named are built at once, and timed row by
row, so that compilers have all cores, and no core while anything is timed. A row is put into the file of its
part in benchmarks/results/cuda as soon as it is measured; `--minutes N` ends the run in time. The machine
needs PyTorch for CUDA and what catgrad depends on, but no network and no installation of catgrad.
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
from collections.abc import Collection, Iterable, Iterator, Sequence
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
from benchmarks.cuda.races import step_rows
from benchmarks.cuda.workloads import KERNELS, PARTS, parts_of, workloads_of
from benchmarks.harness import RESULTS, errors_in_a_line
from benchmarks.processes import Competitor, Process
from benchmarks.records import Record, Row
from benchmarks.tables import reasons
from catgrad.errors import CatgradError, ToolError

CONSOLE = Console(width=190)


class Limit:
    """The time in which a measurement ends by itself; none for 0 minutes."""

    def __init__(self, minutes: float) -> None:
        self.end = time.monotonic() + minutes * 60 if minutes else float("inf")

    def left(self) -> float:
        """Return the seconds that are left."""
        return self.end - time.monotonic()


def kernel_rows(part: str, limit: Limit, ceilings: dict[str, float]) -> Iterator[Row]:
    """Measure the kernels of a part, in a process that is started again if one of them ends it.

    Ceilings of the GPU are measured unless they are known.
    """
    worker = Competitor("kernels", "gpu_kernels_worker", part)
    rest = names_of(part)
    with tempfile.TemporaryDirectory() as folder:
        while rest and limit.left() > 0:
            with Process(worker, Path(folder), os.cpu_count() or 1, limit.left) as process:
                try:
                    process.answer()
                    if not ceilings:
                        ceilings.update(process.ask("ceilings"))
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


def kept(rows: Iterable[Row], out: Path) -> list[Row]:
    """Keep each row in the file of its part as soon as it is measured, and return all."""
    every = []
    empty = Record("python -m benchmarks.cuda", [], records.described(**machine()), versions())
    for row in rows:
        path = out / f"{row.facts['part']}.json"
        records.added(empty, path).with_part(replace(empty, rows=[row])).write(path)
        every.append(row)
    return every


def measure_kernels(part: str, out: Path, limit: Limit, ceilings: dict[str, float]) -> None:
    """Measure the kernels of a part, and print their table."""
    rows = kept(kernel_rows(part, limit, ceilings), out)
    CONSOLE.print(tables.kernel_table(rows))
    told(rows)


def measure_steps(parts: Sequence[str], out: Path, limit: Limit, only: Collection[str]) -> None:
    """Measure the steps of parts, and print their tables and which kernels take their time."""
    workloads = [workload for part in parts for workload in workloads_of(part)]
    with CONSOLE.status("") as status:
        rows = kept(step_rows(workloads, limit.left, status.update, machine()["memory"], only), out)
    for part in parts:
        if some := [row for row in rows if row.facts["part"] == part]:
            CONSOLE.print(tables.step_table(some))
            for line in (line for row in some for line in tables.shares(row)):
                CONSOLE.print(line, highlight=False, markup=False)
            told(some)


def told(rows: Sequence[Row]) -> None:
    """Say why competitors were not measured."""
    for reason in reasons(rows):
        CONSOLE.print(reason, highlight=False, markup=False)


def check_device(limit: Limit) -> None:
    """Compare results on the GPU, and find races."""
    from benchmarks.cuda.check import checked

    for line in checked(limit.left):
        CONSOLE.print(line, highlight=False, markup=False)


def measure(parts: Sequence[str], out: Path, limit: Limit, peers: Sequence[str]) -> None:
    """Measure the kernels of parts, then the steps of all others."""
    ceilings = dict[str, float]()
    for each in (part for part in parts if part in KERNELS):
        if limit.left() > 0:
            with continued(each):
                measure_kernels(each, out, limit, ceilings)
    if steps := [part for part in parts if part not in KERNELS]:
        with continued(", ".join(steps)):
            measure_steps(steps, out, limit, peers)


def main(
    part: Annotated[str, typer.Option(help=f"Of {', '.join(PARTS)}, with commas; all by default.")] = "",
    peers: Annotated[str, typer.Option(help="Only these forms of PyTorch's steps, with commas.")] = "",
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
            check_device(limit)
        measure(parts, out, limit, peers.split(",") if peers else ())
        CONSOLE.print(f"kept in {out}")
