"""Fisher's irises: classify three species of flowers by the sizes of their leaves.

    python -m catgrad.examples.iris dense --plot iris.png

Prints the emitted source, trains on that source only, and prints the accuracy on the 150 flowers. With
`--target scratch` it trains in Scratch, and writes iris.sb3, a project that trains again at its green
flag. Data: Fisher 1936, by way of the UCI Machine Learning Repository.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from catgrad import Dim, NdArrayType, Task, accuracy, data, emit, fit, layers, mse, obj, sgd
from catgrad.playground import Samples, View

from .options import IN_SCRATCH, BatchSize, Plot, Project, Seed, Steps, Target, run

DATA = Path(__file__).parent / "data" / "iris.csv"
FEATURES = ("sepal length", "sepal width", "petal length", "petal width")
SPECIES = ("setosa", "versicolor", "virginica")

BATCH = NdArrayType((Dim("batch"),))
INPUT = NdArrayType((4,))
HIDDEN = NdArrayType((20,))
OUTPUT = NdArrayType((3,))


def linear() -> Task:
    """Linear regression onto one-hot labels."""
    return Task(layers.linear(BATCH, INPUT, OUTPUT), sgd(0.3), mse, "linear")


def simple() -> Task:
    """Return a linear map and a sigmoid, without bias."""
    model = layers.linear(BATCH, INPUT, OUTPUT) >> layers.sigmoid(obj(BATCH + OUTPUT))
    return Task(model, sgd(5.0), mse, "simple")


def dense() -> Task:
    """One dense layer: logistic regression for each species."""
    return Task(layers.dense(BATCH, INPUT, OUTPUT, activation=layers.sigmoid), sgd(5.0), mse, "dense")


def hidden() -> Task:
    """Two dense layers, with 20 hidden units."""
    model = layers.dense(BATCH, INPUT, HIDDEN) >> layers.dense(BATCH, HIDDEN, OUTPUT)
    return Task(model, sgd(5.0), mse, "hidden")


class Model(StrEnum):
    """The models to choose from."""

    linear = "linear"
    simple = "simple"
    dense = "dense"
    hidden = "hidden"


def load() -> tuple[np.ndarray, np.ndarray]:
    """Load the flowers: features with mean 0 and variance 1, and one-hot species, both float32."""
    flowers = data.read(DATA)
    features = flowers.numbers()
    return data.standardise(features)(features), flowers.one_hot("species", SPECIES)


def samples() -> Samples:
    """Return the flowers for a page, which `catgrad playground` writes."""
    note = (
        "150 flowers, measured by Fisher in 1936. Dots are flowers, and the colour below is the prediction."
    )
    return Samples(*load(), 150, View.REGIONS, FEATURES, SPECIES, title="Fisher’s irises", note=note)


def main(
    model: Annotated[Model, typer.Argument(help="Which network to train.")] = Model.dense,
    target: Target = "numpy",
    steps: Steps = 2000,
    seed: Seed = 0,
    batch_size: BatchSize = 150,
    plot: Plot = None,
    project: Project = Path("iris.sb3"),
) -> None:
    """Train a small network on Fisher's irises, on emitted source only."""
    task = {Model.linear: linear, Model.simple: simple, Model.dense: dense, Model.hidden: hidden}[model]()
    x, y = load()
    is_scratch = target == "scratch"
    batch_size = min(batch_size, IN_SCRATCH) if is_scratch else batch_size
    options = {"batch": batch_size, "data": (x, y), "features": FEATURES, "classes": SPECIES}
    artifact = emit(task, target, **options if is_scratch else {})
    typer.echo(artifact.source)
    learner = artifact.load()().learner(seed)
    history = fit(learner, (x, y), steps=steps, batch_size=batch_size, seed=seed, drop_last=is_scratch)
    typer.echo(f"accuracy: {accuracy(learner.predict(x), y):.1%} of {len(x)} flowers")
    if is_scratch:
        learner.save(project)
        typer.echo(f"project: {project}")
    if plot is not None:
        from .plots import decision_regions

        decision_regions(plot, history.losses, learner.predict, x, y, FEATURES, SPECIES)
        typer.echo(f"plot: {plot}")


if __name__ == "__main__":
    run(main)
