"""Profile of emitted C: `python -m benchmarks.cpu.split`, which needs `perf` of Linux.

Samples the processor while a step of a workload, or what `--measure` names, is repeated in a process, and
prints the shares of tiles of products, of copies and transforms of their operands, of all other loops, and
of Python and libraries; then those of the kernels whose loops take most.
"""

from __future__ import annotations

import re
import signal
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.cpu.workloads import chosen
from benchmarks.options import Only
from benchmarks.processes import Competitor, Process
from benchmarks.workloads import STEP, written

TILES, COPIES, LOOPS, REST = "products", "copies of operands", "other loops", "Python and libraries"
MOVES = re.compile(r"_*mem(cpy|move|set)")
PRODUCT = re.compile(
    r"(tile|dots|pack|cop|panel|strip|piece|transposed|line|block|part|share|axis|each|winograd|nested|gemm|edge)\w*_f32"
)
"""Functions of libc, and of the runtime, that products call."""
MULTIPLIES = re.compile(r"tile|dots")
LINE = re.compile(r"^\s+[\d.]+%\s+(\d+)\s+(\S+)\s+\[\.\]\s+(\S+)", re.MULTILINE)
"""A line of the report: samples, the library, and the function."""
SECONDS, HERTZ, SHOWN = 5.0, 2000, 4


def kind(library: str, function: str, name: str) -> str:
    """Return what a function does, in a process that runs an emitted library of a name."""
    if MOVES.match(function):
        return COPIES
    if not library.startswith(f"{name}."):
        return REST
    if not PRODUCT.search(function):
        return LOOPS
    return TILES if MULTIPLIES.search(function) else COPIES


def shares(report: str, name: str) -> tuple[dict[str, float], dict[str, float]]:
    """Return the shares of each kind of function, and of each kernel, of a report."""
    found = [(int(count), library, function) for count, library, function in LINE.findall(report)]
    kinds, kernels, total = Counter[str](), Counter[str](), sum(count for count, _, _ in found)
    for count, library, function in found:
        what = kind(library, function, name)
        kinds[what] += count
        if what == LOOPS:
            kernels[function.partition(".")[0]] += count
    every = {what: kinds[what] / total for what in (TILES, COPIES, LOOPS, REST)}
    return every, {function: count / total for function, count in kernels.most_common(SHOWN)}


def report_of(name: str, measure: str, folder: Path) -> str:
    """Sample a measure of a workload, and return the report of all functions."""
    [workload] = chosen(name)
    samples = folder / "samples"
    with Process(Competitor(name, "catgrad_emitted", "c"), written(workload, folder), 1) as process:
        process.answer()
        process.ask("prepare", measure=measure)
        call = process.ask("time", measure=measure, times=1)["call"]
        record = ["perf", "record", "-q", "-e", "cpu-clock:u", "-F", str(HERTZ), "-o", str(samples)]
        perf = subprocess.Popen([*record, "-p", str(process.process.pid)])
        process.ask("time", measure=measure, times=max(1, round(SECONDS / call)))
        perf.send_signal(signal.SIGINT)
        perf.wait()
    report = ["perf", "report", "-i", str(samples), "--stdio", "--sort", "dso,symbol", "-n"]
    return subprocess.run(report, check=True, capture_output=True, text=True).stdout


def main(
    only: Only = "", measure: Annotated[str, typer.Option(help="step, loop or predict.")] = STEP
) -> None:
    """Print where the time of steps goes, by samples of the processor."""
    for workload in chosen(only):
        if measure not in workload.measures:
            continue
        with tempfile.TemporaryDirectory() as folder:
            report = report_of(workload.name, measure, Path(folder))
        kinds, kernels = shares(report, workload.task.name)
        print(
            f"{workload.title}: {measure}: " + ", ".join(f"{what} {each:.0%}" for what, each in kinds.items())
        )
        print("  " + ", ".join(f"{function} {each:.1%}" for function, each in kernels.items()))


if __name__ == "__main__":
    typer.run(main)
