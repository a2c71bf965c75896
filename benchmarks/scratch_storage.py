"""What each way to keep a sprite's weights takes and costs: `python -m benchmarks.scratch_storage`.

A perceptron 784-64-10 with weights as PyTorch draws them first. The error of weights is the greatest over
the greatest weight of a list, that of the output the same for one prediction. The time to unpack is that
which the first prediction takes more than the next, of the processor. It takes half a minute in all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from catgrad.backends.scratch.machine import Machine
from rich.console import Console
from rich.table import Table

from benchmarks.sprites import unzipped
from catgrad import Dim, Dtype, NdArrayType, Task, emit, layers, mse, sgd
from catgrad.formats import scratch
from catgrad.formats.packed import NAME

WAYS: tuple[dict[str, Any], ...] = (
    {},
    {"sig_figs": 6},
    {"sig_figs": 4},
    {"storage": "packed"},
    {"storage": "packed", "sig_figs": 6},
    {"storage": "packed", "sig_figs": 4},
    {"storage": "int8"},
)
ROUNDS = 3


def task() -> Task:
    """The model."""
    batch, sizes = NdArrayType((Dim("batch"),)), [NdArrayType((n,), Dtype.float32) for n in (784, 64, 10)]
    first = layers.dense(batch, sizes[0], sizes[1], layers.relu)
    return Task(layers.sequential(first, layers.dense(batch, sizes[1], sizes[2])), sgd(0.1), mse, "net")


def file(weights: Mapping[str, np.ndarray], way: Mapping[str, Any]) -> bytes:
    """A sprite that predicts, with its weights kept in a way."""
    return emit(task(), "scratch", weights=weights, train=False, **way).files["net.sprite3"]  # type: ignore[return-value]


def bytes_each(sprite: bytes, weights: Mapping[str, np.ndarray]) -> float:
    """How many bytes of JSON there are for a weight."""
    lists = json.loads(unzipped(sprite)["sprite.json"])["lists"].values()
    kept = [items for name, items in lists if name in weights or name == NAME]
    text = json.dumps(kept, ensure_ascii=False, separators=(",", ":"))
    return len(text.encode()) / sum(array.size for array in weights.values())


def unpacking(sprite: bytes, vm: str) -> tuple[float, np.ndarray]:
    """Seconds to unpack the weights, and the output."""
    machine = Machine(vm)
    times = []
    for _ in range(ROUNDS):
        machine.load(sprite)
        machine.set_list("input", np.linspace(0, 1, 784))
        first, then = (machine.seconds("predict", repeats=1) for _ in range(2))
        times.append(first - then)
    return min(times), machine.array("output")


def main() -> None:
    """Measure and print."""
    drawn = emit(task(), "numpy").load()().init(0)
    slots = emit(task(), "scratch").program.tables["parameters"]
    weights = {slot.name: np.asarray(array) for slot, array in zip(slots, drawn, strict=True)}
    count = sum(array.size for array in weights.values())
    table = Table(
        "",
        "bytes of JSON each",
        "file, kB",
        "error of weights",
        "of output",
        "unpacking, µs each: vanilla",
        "turbowarp",
    )
    right = None
    for way in WAYS:
        sprite = file(weights, way)
        read = scratch.read_arrays(sprite, slots)
        error = max(np.abs(read[n] - a).max() / np.abs(a).max() for n, a in weights.items())
        (slow, output), (quick, _) = (unpacking(sprite, vm) for vm in ("vanilla", "turbowarp"))
        right = output if right is None else right
        packed = "storage" in way
        table.add_row(
            ", ".join(f"{k}={v}" for k, v in way.items()) or "numbers",
            f"{bytes_each(sprite, weights):.1f}", f"{len(sprite) / 1000:.0f}", f"{error:.1e}",
            f"{np.abs(output - right).max() / np.abs(right).max():.1e}",
            *(f"{seconds / count * 1e6:.1f}" if packed else "" for seconds in (slow, quick)),
        )  # fmt: skip
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
