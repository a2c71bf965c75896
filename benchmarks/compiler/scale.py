"""A model of the time of a training step on several devices: `python -m benchmarks.compiler.scale`.

The model is the roofline of a step: FLOPs over the rate of a device, and bytes that it sends over the
bandwidth of its links, both from the counts of `Task.cost` and `Task.communication`. First it is compared
with steps of 1, 2 and 4 processes on this machine, which train the emitted PyTorch by gloo; latency and
bandwidth are measured by sums of other sizes. Then, as a simulation, it computes for GPTs and accelerators at
how many tokens a device communicates as long as it computes. `--keep` writes benchmarks/results/scale.json,
and the tables of docs/explanation/scale.md.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.console import Console

from benchmarks.harness import ROOT, errors_in_a_line
from benchmarks.options import Keep
from benchmarks.peers.data_parallel import SIZES
from benchmarks.records import Record, Row, path_of
from benchmarks.tables import cells, fact, figure, markdown, text, write_table
from benchmarks.workloads import GPT_STEPS, Workload
from catgrad import emit
from catgrad.learn.reports.communication import Communication, communication

PAGE = ROOT / "docs/explanation/scale.md"
NET = Workload(
    "deep",
    "MLP 784-512-512-512-10, 64 rows a process",
    "perceptron",
    {"widths": (784, 512, 512, 512, 10), "activation": "relu", "last": "identity"},
    64,
)
COUNTS = (1, 2, 4)


@dataclass(frozen=True)
class Accelerator:
    """A device: FLOP/s of bfloat16 products, and bytes a second that it sends to its neighbours in a ring."""

    name: str
    flops: float
    bandwidth: float

    @property
    def intensity(self) -> float:
        """The FLOPs of a device in the time of a byte."""
        return self.flops / self.bandwidth


ACCELERATORS = (
    Accelerator("TPU v5p, one axis of its torus", 459e12, 180e9),
    Accelerator("TPU v5p, three axes", 459e12, 540e9),
    Accelerator("H100, NVLink", 989e12, 450e9),
    Accelerator("H100, InfiniBand 400 Gbit/s", 989e12, 50e9),
)
"""Rates as the manufacturers state them."""

MODELS = {
    "GPT-2 124M": {"depth": 12, "width": 768, "heads": 12, "context": 1024},
    "GPT 6.7B": {"depth": 32, "width": 4096, "heads": 32, "context": 2048},
}
VOCABULARY, TENSOR = 50304, 4
"""Tokens, rounded up so that devices share them evenly, and the devices that share layers."""


def row_of(processes: int, compute: float, communicate: float, step: float) -> Row:
    """Return the row of a step of some processes, and of the parts that the model of its time consists of."""
    figures = {"seconds": step, "compute": compute, "communicate": communicate}
    name = f"{processes} processes" if processes > 1 else "1 process"
    return Row(name, {"catgrad torch": figures}, facts={"processes": processes})


def modelled(row: Row) -> float:
    """Return the time of a step by the model."""
    [figures] = row.results.values()
    return float(figures["compute"] + figures["communicate"])


def measured() -> list[Row]:
    """Train with each number of processes, which take turns where there are more of them than cores."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = emit(NET.task, "torch", ["grads", "update", "step"]).source
        (folder / "emitted.py").write_text(source, encoding="utf-8")
        np.savez(folder / "data.npz", **NET.data())
        runs = {count: _run(folder, count) for count in COUNTS}
    alone, cores = runs[1]["compute"], os.cpu_count() or 1
    found = []
    for count, run in runs.items():
        sends = communication(NET.task, count)
        latency, bandwidth = _line(sends, run["sums"]) if count > 1 else (0.0, 1.0)
        sent = sends.sent("data")
        assert isinstance(sent, int)
        turns = -(-count // cores)
        communicates = run["arrays"] * latency + sent / bandwidth
        found.append(row_of(count, turns * alone, communicates, run["step"]))
    return found


def _run(folder: Path, count: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.peers.data_parallel", str(folder)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            [*command, str(rank), str(count)], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
        )
        for rank in range(count)
    ]
    outputs = [process.communicate()[0] for process in processes]
    return dict(json.loads(outputs[0]))


def _line(sends: Communication, sums: list[float]) -> tuple[float, float]:
    """Return latency and bandwidth of sums of two sizes, of which each device sends 2 (N - 1)/N."""
    share = 2 * (sends.devices - 1) / sends.devices
    bandwidth = share * (SIZES[1] - SIZES[0]) / (sums[1] - sums[0])
    return max(0.0, sums[0] - share * SIZES[0] / bandwidth), bandwidth


@dataclass(frozen=True)
class Threshold:
    """Tokens of a device in a step at which it communicates as long as it computes, for each way of sharing.

    For `tensor` it is the time of communication over that of computation, which tokens do not change.
    """

    model: str
    accelerator: str
    data: float
    fsdp: float
    tensor: float


def thresholds(models: Mapping[str, Mapping[str, int]] = MODELS) -> Iterator[Threshold]:
    """Compute the thresholds from the counts: arrays in bfloat16, gradients sent while the reverse runs."""
    for name, sizes in models.items():
        shape = {"vocabulary": VOCABULARY, **sizes}
        task = Workload("gpt", name, "tied_gpt", shape, 1, optimiser=GPT_STEPS).task
        cost, tokens = task.cost().functions, sizes["context"]
        step, forward = (int(cost[kind].products) / tokens for kind in ("grads", "predict"))
        sent = communication(task, TENSOR)
        weights = int(sent.parameters["data"]) / 2
        layers = int(sent.passes["tensor"]) * (TENSOR - 1) / TENSOR / 2 / tokens
        for device in ACCELERATORS:
            yield Threshold(
                name,
                device.name,
                data=2 * weights * device.intensity / (step - forward),
                fsdp=3 * weights * device.intensity / step,
                tensor=layers * device.intensity / (step / TENSOR),
            )


COLUMNS = {
    "processes": fact("processes"),
    "computes": figure("compute", text),
    "communicates": figure("communicate", text),
    "modelled step": lambda row: text(modelled(row)),
    "measured": figure("seconds", text),
    "ratio": lambda row: f"{row.seconds(row.mine) / modelled(row):.2f}",
}


def tables(runs: list[Row], simulated: list[Threshold]) -> list[str]:
    """Return the measured steps and the thresholds in Markdown."""
    lines = [
        (t.model, t.accelerator, f"{t.data:,.0f}", f"{t.fsdp:,.0f}", f"{t.tensor:.2f}") for t in simulated
    ]
    headings = (
        "model",
        "device",
        "tokens, data",
        "tokens, fsdp",
        f"tensor, {TENSOR} devices: ratio of times",
    )
    return [markdown(*cells(runs, COLUMNS)), markdown(headings, lines)]


def main(keep: Keep = False) -> None:
    """Measure, simulate, and print both tables."""
    console = Console()
    with errors_in_a_line(console):
        runs, simulated = measured(), list(thresholds())
    for table in tables(runs, simulated):
        console.print(table, "\n", markup=False, highlight=False, soft_wrap=True)
        if keep:
            write_table(PAGE, table)
    if keep:
        more = {"thresholds": list(map(asdict, simulated))}
        Record("python -m benchmarks.compiler.scale --keep", runs, more=more).keep(path_of("scale"))


if __name__ == "__main__":
    typer.run(main)
