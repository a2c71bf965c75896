"""Accuracy in eight bits: `python -m benchmarks.tiny.accuracy`.

Trains the two networks of the digits in float32, quantises them, and fine-tunes both on digits that are
turned by a right angle, from five seeds. Takes three minutes; `--keep` writes
benchmarks/results/tiny_accuracy.json and docs/howto/eight-bits.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import typer
from catgrad.examples import digits

from benchmarks.harness import ROOT
from benchmarks.options import Keep, Only, is_chosen
from benchmarks.records import OURS, Record, Row, path_of
from benchmarks.tables import cells, fact, figure, markdown
from benchmarks.tables import keep as keep_tables
from catgrad import Dtype, Task, accuracy, emit, fit, sgd
from catgrad.learn.learner import Learner
from catgrad.quantisation import quantise

JSON, PAGE = path_of("tiny_accuracy"), ROOT / "docs/howto/eight-bits.md"
TRAINED, HELD_OUT = slice(digits.TRAINING), slice(digits.TRAINING, None)
NETS: Mapping[str, Callable[[], Task]] = {"MLP": digits.mlp, "CNN": digits.cnn}
Arrays = Mapping[str, np.ndarray]
Batches = Sequence[tuple[np.ndarray, np.ndarray]]
SEEDS = range(5)
STEPS, BATCH = 700, 64
TUNING, TUNING_BATCH, RATE = 600, 16, 0.05
FIGURES = {
    "float32": "float32",
    "int8": "int8",
    "turned": "turned",
    "tuned_float32": "tuned in float32",
    "tuned_int8": "tuned in int8",
    "tuned_stored": "stored in int8",
}
"""Accuracies on digits that were not trained on, with the headings of their columns."""


def trained(
    task: Task, arrays: Arrays, x: np.ndarray, y: np.ndarray, steps: int, batch: int, seed: int
) -> Any:
    """Return a learner after some steps, from those of these parameters that it trains."""
    learner = emit(task, "c").load()().learner(seed)
    for name in learner.parameters.keys() & arrays.keys():
        learner.parameters[name][...] = arrays[name]
    fit(learner, (x[TRAINED], y[TRAINED]), steps=steps, batch_size=batch, seed=seed)
    return learner


def scored(learner: Learner, x: np.ndarray, y: np.ndarray) -> float:
    """Return the share of digits that were not trained on which a learner recognises."""
    return accuracy(np.asarray(learner.predict(x[HELD_OUT])), y[HELD_OUT])


def turned_by_a_right_angle(x: np.ndarray) -> np.ndarray:
    """Return digits that lie on their side."""
    return np.rot90(x, 1, (2, 3)).copy()


def calibration(x: np.ndarray, y: np.ndarray) -> Batches:
    """Return the batches by which models are quantised."""
    return [(x[first : first + 64], y[first : first + 64]) for first in range(0, 512, 64)]


def measured(net: str, seed: int) -> Row:
    """Train, quantise and fine-tune a network."""
    x, y = digits.load()
    turned, data = turned_by_a_right_angle(x), calibration(x, y)
    task = NETS[net]()
    learner = trained(task, {}, x, y, STEPS, BATCH, seed)
    arrays, task = dict(learner.parameters), replace(task, optimiser=sgd(RATE))
    small = emit(quantise(task, arrays, [images for images, _ in data]), "c").load()()
    [scores] = small.predict(*small.init_buffers(), x[HELD_OUT])
    layers = sorted({name.split(".")[0] for name in arrays})
    stored = quantise(task, arrays, data, train=layers, parameters=Dtype.int8)
    tuned = {
        "float32": trained(task, arrays, turned, y, TUNING, TUNING_BATCH, seed),
        "int8": trained(
            quantise(task, arrays, data, train=layers), {}, turned, y, TUNING, TUNING_BATCH, seed
        ),
        "stored": trained(stored, {}, turned, y, TUNING, TUNING_BATCH, seed),
    }
    figures = {
        "float32": scored(learner, x, y),
        "int8": accuracy(scores, y[HELD_OUT]),
        "turned": scored(learner, turned, y),
        **{f"tuned_{name}": scored(each, turned, y) for name, each in tuned.items()},
    }
    return Row(f"{net}, seed {seed}", {OURS: figures}, facts={"net": net, "seed": seed})


def table(rows: Sequence[Row]) -> str:
    """Return the table in Markdown, with a row of means for each network."""
    columns = {heading: figure(name, lambda share: f"{share:.1%}") for name, heading in FIGURES.items()}
    every = [*rows, *(mean(net, found) for net in NETS if (found := of(net, rows)))]
    return markdown(*cells(every, {"network": fact("net"), "seed": fact("seed"), **columns}))


def of(net: str, rows: Sequence[Row]) -> list[Row]:
    """Select the rows of a network."""
    return [row for row in rows if row.facts["net"] == net]


def mean(net: str, rows: Sequence[Row]) -> Row:
    """Return the means over seeds."""
    figures = {name: float(np.mean([row.results[OURS][name] for row in rows])) for name in FIGURES}
    return Row(net, {OURS: figures}, facts={"net": net, "seed": "mean"})


def main(only: Only = "", keep: Keep = False) -> None:
    """Measure accuracy in float32 and in int8."""
    cases = [(net, seed) for net in NETS for seed in SEEDS if is_chosen(f"{net}, seed {seed}", only)]
    rows = [measured(net, seed) for net, seed in cases]
    print(table(rows))
    if keep:
        keep_tables(
            Record("python -m benchmarks.tiny.accuracy --keep", rows), JSON, PAGE, lambda r: [table(r)]
        )


if __name__ == "__main__":
    typer.run(main)
