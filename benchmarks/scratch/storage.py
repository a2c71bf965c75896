"""Storage of a sprite's weights: `python -m benchmarks.scratch.storage`.

A perceptron 784-64-10 with PyTorch's initial weights. Errors of weights are relative to the greatest weight
of a list, those of outputs to the greatest output of one prediction. The time to unpack is the difference of
the processor times of the first and second prediction, the minimum of three rounds. A run takes a minute;
`--keep` writes its figures to benchmarks/results/scratch_storage.json.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import typer
from catgrad.backends.scratch.formats import names, projects
from catgrad.backends.scratch.formats.packed import NAME
from catgrad.backends.scratch.machine.projects import Machine
from rich.console import Console

from benchmarks import machine, records
from benchmarks.options import Keep, Only, is_chosen
from benchmarks.records import OURS, Row
from benchmarks.scratch.cases import VMS
from benchmarks.scratch.tables import kept
from benchmarks.scratch.timing import unzipped
from benchmarks.tables import figure, table
from catgrad import Dim, Dtype, NdArrayType, Task, emit, layers, mse, sgd
from catgrad.artifact import Artifact

WAYS: tuple[dict[str, Any], ...] = (
    {},
    {"sig_figs": 6},
    {"sig_figs": 4},
    {"storage": "packed"},
    {"storage": "packed", "sig_figs": 6},
    {"storage": "packed", "sig_figs": 4},
    {"storage": "float16"},
    {"storage": "int8"},
    {"storage": "int6"},
    {"storage": "int4"},
)
ROUNDS = 3
PATH = records.path_of("scratch_storage")

Weights = Mapping[str, np.ndarray]


def task() -> Task:
    """Build the model."""
    batch, sizes = NdArrayType((Dim("batch"),)), [NdArrayType((n,), Dtype.float32) for n in (784, 64, 10)]
    first = layers.dense(batch, sizes[0], sizes[1], layers.relu)
    return Task(layers.sequential(first, layers.dense(batch, sizes[1], sizes[2])), sgd(0.1), mse, "net")


def json_each(sprite: bytes, weights: Weights) -> float:
    """Return the bytes of JSON for each weight."""
    lists = json.loads(unzipped(sprite)["sprite.json"])["lists"].values()
    kept = [items for name, items in lists if names.written(name) in {*weights, NAME}]
    text = json.dumps(kept, ensure_ascii=False, separators=(",", ":"))
    return len(text.encode()) / sum(array.size for array in weights.values())


def unpacking(sprite: bytes, vm: str) -> tuple[float, np.ndarray]:
    """Time the unpacking of the weights, in seconds; return the output too."""
    loaded = Machine(vm)
    times = []
    for _ in range(ROUNDS):
        loaded.load(sprite)
        loaded.set_list("input", np.linspace(0, 1, 784))
        first, then = (loaded.seconds("predict", repeats=1) for _ in range(2))
        times.append(first - then)
    return min(times), loaded.array("output")


def measured(way: Mapping[str, Any], weights: Weights, right: np.ndarray) -> Row:
    """Measure one option."""
    artifact: Artifact = emit(task(), "scratch", ["predict"], weights=weights, **way)
    sprite = bytes(artifact.files["net.sprite3"])  # type: ignore[arg-type]  # it is no text
    read = projects.read_arrays(sprite, artifact.program.tables["parameters"])
    found = {vm: unpacking(sprite, vm) for vm in VMS}
    count = sum(array.size for array in weights.values())
    figures = {
        "json_each": json_each(sprite, weights),
        "file": len(sprite),
        "weights_error": max(_off(read[name], array) for name, array in weights.items()),
        "output_error": max(_off(output, right) for _, output in found.values()),
        "unpacking_each": {vm: seconds / count for vm, (seconds, _) in found.items() if "storage" in way},
    }
    return Row(name_of(way), {OURS: figures})


def _off(found: np.ndarray, right: np.ndarray) -> float:
    return float(np.abs(found - right).max() / np.abs(right).max())


def unpacked(vm: str) -> Callable[[Row], str]:
    """Return the cell of the time to unpack a weight on a virtual machine."""
    return figure("unpacking_each", lambda times: f"{times[vm] * 1e6:.1f}" if vm in times else "")


COLUMNS = {
    "options": lambda row: row.what,
    "JSON, bytes each": figure("json_each", lambda size: f"{size:.1f}"),
    ".sprite3, kB": figure("file", lambda size: f"{size / 1000:.0f}"),
    "error of weights": figure("weights_error", lambda error: f"{error:.0e}"),
    "of the output": figure("output_error", lambda error: f"{error:.0e}"),
    **{f"unpacking, µs each: {vm}": unpacked(vm) for vm in VMS},
}


def name_of(way: Mapping[str, Any]) -> str:
    """Name a way by its options."""
    return ", ".join(f"{name}={value}" for name, value in way.items()) or "numbers"


def main(only: Only = "", keep: Keep = False) -> None:
    """Measure, print and keep."""
    busy = machine.busy()
    plain = emit(task(), "numpy")
    loaded = plain.load()()
    drawn = loaded.init(0)
    names = [slot.name for slot in plain.program.tables["parameters"]]
    weights = {name: np.asarray(array) for name, array in zip(names, drawn, strict=True)}
    [right] = loaded.predict(*drawn, np.linspace(0, 1, 784, dtype=np.float32)[None])
    rows = [measured(way, weights, right.ravel()) for way in WAYS if is_chosen(name_of(way), only)]
    Console(width=170).print(table(rows, COLUMNS))
    if keep:
        kept("python -m benchmarks.scratch.storage --keep", rows, busy).keep(PATH)


if __name__ == "__main__":
    typer.run(main)
