"""Fine-tuning in int8 beside float32: `python -m benchmarks.tiny.digits`.

A convolutional network of handwritten digits is trained in float32, quantised with upright digits, and
fine-tuned on digits that lie on their side: all layers or the last, in float32 or int8, by SGD. Figures are
accuracies on digits that no training saw, over five seeds of initial values and batches. Takes five minutes;
`--keep` writes benchmarks/results/digits_int8.json and the table of docs/howto/eight-bits.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import typer
from catgrad.examples import digits

from benchmarks.harness import ROOT
from benchmarks.options import Keep
from benchmarks.records import OURS, Record, Row, path_of
from benchmarks.tables import cells, fact, figure, markdown
from benchmarks.tables import keep as keep_tables
from benchmarks.tiny.accuracy import (
    SEEDS,
    Arrays,
    Batches,
    calibration,
    scored,
    trained,
    turned_by_a_right_angle,
)
from catgrad import Task, sgd
from catgrad.learn.optimiser import frozen, grouped
from catgrad.quantisation import quantise

JSON, PAGE = path_of("digits_int8"), ROOT / "docs/howto/eight-bits.md"
BEFORE, RATE, STEPS, BATCH = 300, 0.02, 1000, 32
LAST, ALL = ["7"], ["0", "3", "7"]
FIGURES = {"mean": "accuracy", "least": "least of five"}


def in_floats(layers: Sequence[str]) -> Callable[[Arrays, Batches], Task]:
    """Return the task that trains some layers in float32, and keeps the others."""
    trained = grouped(lambda p: sgd(RATE) if p.name.startswith(tuple(layers)) else frozen())
    return lambda arrays, data: replace(digits.cnn(), optimiser=trained)


def in_integers(**options: Any) -> Callable[[Arrays, Batches], Task]:
    """Return the task that is quantised with these options."""

    def quantised(arrays: Arrays, data: Batches) -> Task:
        batches = data if "train" in options else [x for x, _ in data]
        return quantise(replace(digits.cnn(), optimiser=sgd(RATE)), arrays, batches, **options)

    return quantised


METHODS: Mapping[str, tuple[str, str, Callable[[Arrays, Batches], Task]]] = {
    "all, float32": ("all", "float32", in_floats(ALL)),
    "all, int8": ("all", "int8", in_integers(train=ALL)),
    "last, float32": ("last", "float32", in_floats(LAST)),
    "last, int8 and float32": ("last", "float32, on int8 (`keep`)", in_integers(keep=LAST)),
    "last, int8": ("last", "int8", in_integers(train=LAST)),
}


def measured() -> list[Row]:
    """Fine-tune by each method from each seed."""
    x, y = digits.load()
    turned, data = turned_by_a_right_angle(x), calibration(x, y)
    found: dict[str, list[float]] = {name: [] for name in METHODS}
    for seed in SEEDS:
        arrays = trained(digits.cnn(), {}, x, y, BEFORE, 64, seed).parameters
        for name, (_, _, task) in METHODS.items():
            tuned = trained(task(arrays, data), arrays, turned, y, STEPS, BATCH, seed)
            found[name].append(scored(tuned, turned, y))
            print(seed, name, found[name][-1], flush=True)
    return [
        Row(
            name,
            {OURS: {"mean": float(np.mean(each)), "least": min(each), "accuracies": each}},
            facts={"layers": METHODS[name][0], "computed in": METHODS[name][1]},
        )
        for name, each in found.items()
    ]


def table(rows: Sequence[Row]) -> str:
    """Return the table in Markdown."""
    facts = {"fine-tuned layers": fact("layers"), "computed in": fact("computed in")}
    shown = {heading: figure(name, lambda share: f"{share:.1%}") for name, heading in FIGURES.items()}
    return markdown(*cells(rows, facts | shown))


def main(keep: Keep = False) -> None:
    """Measure accuracies of fine-tuning."""
    rows = measured()
    print(table(rows))
    if keep:
        keep_tables(
            Record("python -m benchmarks.tiny.digits --keep", rows), JSON, PAGE, lambda all_: [table(all_)]
        )


if __name__ == "__main__":
    typer.run(main)
