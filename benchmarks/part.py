"""Memory and time of training a part: `python -m benchmarks.part`.

Compiles the step of a network of four layers for the target `c`, with all or some of its parameters trained,
and prints its workspace, the multiplications and additions of its products, and the least processor time of
many steps, with one thread. The parts take turns. Takes half a minute; `--keep` writes
benchmarks/results/part.json and docs/howto/train-a-part.md.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import typer

from benchmarks.harness import ROOT, in_turns
from benchmarks.machine import operations, workspaces
from benchmarks.nets import perceptron
from benchmarks.options import Keep, Only, is_chosen
from benchmarks.records import Record, Row, path_of
from benchmarks.tables import cells, counted, figure, markdown, text
from benchmarks.tables import keep as keep_tables
from catgrad import Dtype, NdArrayType, Task, emit, losses
from catgrad.learn.optimisers import Optimiser, frozen, grouped, sgd, sliced
from catgrad.terms.state import Slot

SIZES, BATCH = (784, 512, 512, 512, 10), 64
SGD = sgd(0.1)
ROUNDS, STEPS = 40, 4
JSON, PAGE = path_of("part"), ROOT / "docs/howto/train-a-part.md"
FIGURES = ("trained", "workspace_bytes", "predict_workspace_bytes", "operations")
COLUMNS = {
    "trained": lambda row: row.what,
    **{
        heading: figure(name, counted)
        for heading, name in zip(
            ("parameters", "workspace of a step", "of predict", "operations"), FIGURES, strict=True
        )
    },
    "time": figure("seconds", text),
}
OURS = "catgrad c"


def of_names(*ends: str) -> Optimiser:
    """Train the parameters whose names begin or end so, and freeze all others."""
    return grouped(lambda p: SGD if p.name.startswith(ends) or p.name.endswith(ends) else frozen())


def _eighth(parameter: Slot) -> Optimiser:
    return sliced(SGD, 0, parameter.type.shape[0] // 8) if parameter.type.rank == 2 else SGD


PARTS: Mapping[str, Optimiser] = {
    "all layers": SGD,
    "last two layers": of_names("dense_2.", "dense_3."),
    "biases": of_names(".bias"),
    "last layer": of_names("dense_3."),
    "every second layer": of_names("dense_1.", "dense_3."),
    "an eighth of the rows": grouped(_eighth),
}


def net(optimiser: Optimiser, sizes: tuple[int, ...] = SIZES, batch: int = BATCH) -> Task:
    """Return the task: dense layers with ReLU, and cross-entropy."""
    model = perceptron(batch, sizes, "relu", "identity")
    return Task(model, optimiser, losses.cross_entropy, "part", (NdArrayType((batch,), Dtype.int64),))


def trained(task: Task) -> int:
    """Count the elements of parameters that a step may change."""
    rng = np.random.default_rng(0)
    learner = emit(task, "numpy", ["step", "update"]).load()().learner(0)
    before = {name: np.array(array) for name, array in learner.parameters.items()}
    learner.update({name: rng.uniform(1, 2, array.shape) for name, array in before.items()})
    return sum(int(np.sum(learner.parameters[name] != array)) for name, array in before.items())


def measured(only: str = "") -> list[Row]:
    """Compile and time all parts, in turns."""
    tasks = {part: net(optimiser) for part, optimiser in PARTS.items() if is_chosen(part, only)}
    models = {part: emit(task, "c").load() for part, task in tasks.items()}
    learners = {part: model().learner(0) for part, model in models.items()}
    rng = np.random.default_rng(0)
    x = rng.normal(size=(BATCH, SIZES[0])).astype(np.float32)
    y = rng.integers(0, SIZES[-1], BATCH)
    steps = {part: partial(learner.step, x, y) for part, learner in learners.items()}
    taken = in_turns(steps, ROUNDS, STEPS, time.process_time)
    rows = []
    for part, task in tasks.items():
        numbers = trained(task), *workspaces(models[part].library), operations(task, "step")
        figures = dict(zip(FIGURES, numbers, strict=True))
        rows.append(Row(part, {OURS: {**figures, "seconds": min(taken[part])}}))
    return rows


def table(rows: Sequence[Row]) -> str:
    """Return a table in Markdown."""
    return markdown(*cells(rows, COLUMNS))


def main(only: Only = "", keep: Keep = False) -> None:
    """Print the table, and keep the figures."""
    rows = measured(only)
    print(f"A step of {'-'.join(map(str, SIZES))}, batch {BATCH}, target c:\n\n{table(rows)}\n")
    if keep:
        keep_tables(Record("python -m benchmarks.part --keep", rows), JSON, PAGE, lambda rows: [table(rows)])


if __name__ == "__main__":
    typer.run(main)
