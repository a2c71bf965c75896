"""Models that together use most kernels of the target c, and C programs that train them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import jinja2
import numpy as np

from catgrad import Dim, Dtype, NdArrayType, Task, build, layers, ops
from catgrad.artifact import Artifact
from catgrad.dims import Size
from catgrad.learn.losses import cross_entropy, mse
from catgrad.learn.optimisers import adamw, clipped, rmsprop, sgd
from examples.char_gpt import gpt
from tests.targets import emit

N, TIME = Dim("batch"), Dim("time")
SEED = 3

Batch = tuple[np.ndarray, np.ndarray]


def floats(*shape: Size) -> NdArrayType:
    return NdArrayType(shape)


def classes(*shape: Size) -> tuple[NdArrayType, ...]:
    return (NdArrayType(shape, Dtype.int64),)


def mlp(dtype: Dtype = Dtype.float32) -> Task:
    batch, *rest = (NdArrayType((n,), dtype) for n in (N, 40, 70, 33))
    model = layers.sequential(
        layers.dense(batch, rest[0], rest[1], layers.tanh, name=""),
        layers.layer_norm(batch, rest[1], name=""),
        layers.dense(batch, rest[1], rest[2], layers.silu, name=""),
    )
    return Task(model, adamw(0.01, epsilon=1e-3), mse, "mlp")


def double_mlp() -> Task:
    return mlp(Dtype.float64)


def cnn() -> Task:
    image = floats(N, 6, 8, 8)
    model = layers.sequential(
        layers.conv(floats(N, 2, 8, 8), 6, 3, 1, 1, bias=False, name=""),
        layers.batch_norm(image, name=""),
        layers.relu([image]),
        layers.max_pool(image, 2),
        layers.flatten(floats(N, 6, 4, 4)),
        layers.linear(floats(N), floats(96), floats(5), name=""),
    )
    return Task(model, sgd(0.05, momentum=0.9), cross_entropy, "cnn", classes(N))


def char_gpt() -> Task:
    model = gpt(11, N, depth=1, width=32, heads=4, context=16)
    model = model >> layers.dropout(model.target.table[0], 0.2, name="drop")
    return Task(model, clipped(adamw(0.01, epsilon=1e-3), 0.5), cross_entropy, "char_gpt", classes(N, 16))


def lstm() -> Task:
    model = layers.sequential(
        layers.lstm(floats(N, TIME), floats(3), floats(9), name=""),
        build(lambda h: ops.mean(h, 1), [floats(N, TIME, 9)]),
        layers.dense(floats(N), floats(9), floats(5), layers.identity, name=""),
    )
    return Task(model, rmsprop(0.003, epsilon=1e-3, momentum=0.5), cross_entropy, "lstm", classes(N))


def dropped_mlp() -> Task:
    """Train a layer with dropout before and after it."""
    model = layers.sequential(
        layers.dropout(floats(N, 8), 0.3),
        layers.dense(floats(N), floats(8), floats(12), name=""),
        layers.dropout(floats(N, 12), 0.2),
    )
    return Task(model, adamw(0.01, epsilon=1e-3), mse, "dropped_mlp")


def dropped_cnn() -> Task:
    """Train a convolution with dropout."""
    image = floats(N, 6, 8, 8)
    model = layers.sequential(
        layers.conv(floats(N, 2, 8, 8), 6, 3, 1, 1, name=""),
        layers.relu([image]),
        layers.dropout(image, 0.3, name="drop"),
        layers.flatten(image),
        layers.linear(floats(N), floats(384), floats(5), name=""),
    )
    return Task(model, sgd(0.05, momentum=0.9), cross_entropy, "dropped_cnn", classes(N))


def regression(rng: np.random.Generator, n: int) -> Batch:
    return rng.normal(size=(n, 40)).astype(np.float32), rng.normal(size=(n, 33)).astype(np.float32)


def double_regression(rng: np.random.Generator, n: int) -> Batch:
    return rng.normal(size=(n, 40)), rng.normal(size=(n, 33))


def rows(rng: np.random.Generator, n: int) -> Batch:
    return rng.normal(size=(n, 8)).astype(np.float32), rng.normal(size=(n, 12)).astype(np.float32)


def pictures(rng: np.random.Generator, n: int) -> Batch:
    return rng.normal(size=(n, 2, 8, 8)).astype(np.float32), rng.integers(0, 5, n)


def sentences(rng: np.random.Generator, n: int) -> Batch:
    return rng.integers(0, 11, (n, 16)), rng.integers(0, 11, (n, 16))


def series(rng: np.random.Generator, n: int) -> Batch:
    return rng.normal(size=(n, 2 + n, 3)).astype(np.float32), rng.integers(0, 5, n)


@dataclass(frozen=True)
class Model:
    """A task with random batches and their sizes."""

    task: Callable[[], Task]
    draw: Callable[[np.random.Generator, int], Batch]
    sizes: tuple[int, int, int]


MODELS = {
    "mlp": Model(mlp, regression, (70, 1, 17)),
    "double_mlp": Model(double_mlp, double_regression, (70, 1, 17)),
    "cnn": Model(cnn, pictures, (5, 2, 5)),
    "char_gpt": Model(char_gpt, sentences, (5, 2, 5)),
    "lstm": Model(lstm, series, (5, 2, 5)),
}

DRAWING = {
    "dropped_mlp": Model(dropped_mlp, rows, (5, 2, 5)),
    "dropped_cnn": Model(dropped_cnn, pictures, (5, 2, 5)),
    "char_gpt": MODELS["char_gpt"],
}
"""Models that draw masks, and whose rows are independent of each other."""


@dataclass(frozen=True)
class Written:
    """A model emitted as C, with a main.c that trains it, and its expected output."""

    name: str
    folder: Path
    wanted: Mapping[str, np.ndarray]


def written(name: str, folder: Path) -> Written:
    """Write the emitted files, and a program that trains on each of three batches."""
    model, rng = MODELS[name], np.random.default_rng(0)
    task, batches = model.task(), [model.draw(rng, size) for size in model.sizes]
    artifact = emit(task, "c")
    artifact.write(folder)
    (folder / "main.c").write_text(main(artifact, batches))
    wanted = numbers(task, batches)
    if "prepared" in json.loads(artifact.files["manifest.json"]):
        wanted["predict_prepared"] = wanted["predict"]
    return Written(task.name, folder, wanted)


@dataclass(frozen=True)
class Call:
    """A call of a library function with the arrays of a batch; `told` is its entry in the manifest."""

    function: str
    title: str
    batch: Batch
    told: Mapping[str, Any]

    @property
    def arguments(self) -> list[tuple[str, np.ndarray]]:
        """The function's own arguments, each with its name."""
        return [(x["name"], array) for x, array in zip(self.told["inputs"], self.batch, strict=False)]

    @property
    def sizes(self) -> list[int]:
        """The values of symbolic sizes, read from the arguments."""
        known: dict[str, int] = {}
        for argument, array in zip(self.told["inputs"], self.batch, strict=False):
            known |= dict(zip(argument["shape"], array.shape, strict=True))
        return [known[size] for size in self.told["sizes"]]

    @property
    def length(self) -> int:
        """The size of its result."""
        known = dict(zip(self.told["sizes"], self.sizes, strict=True))
        return prod(known.get(size, size) for size in self.told["outputs"][0]["shape"])


def main(artifact: Artifact, batches: Sequence[Batch]) -> str:
    """Print a C program that prints the loss of each step, and the tables at the end."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    told = json.loads(artifact.files["manifest.json"])
    functions = {f["name"].removeprefix(f"{told['prefix']}_"): f for f in told["functions"]}
    calls = [Call("step", f"step {i}", batch, functions["step"]) for i, batch in enumerate(batches)]
    calls += [Call(name, name, batches[0], functions[name]) for name in ("loss", "predict")]
    if "prepared" in told:
        calls.append(Call("predict_prepared", "predict_prepared", batches[0], functions["predict"]))
    return environment.get_template("c_main.c.j2").render(told=told, calls=calls, seed=SEED)


def numbers(task: Task, batches: Sequence[Batch]) -> dict[str, np.ndarray]:
    """Return the results of the target numpy for the same steps."""
    learner = emit(task, "numpy").load()().learner(SEED)
    losses = [learner.step(*batch) for batch in batches]
    found = {f"step {i}": loss for i, loss in enumerate(losses)}
    found |= {"loss": learner.loss(*batches[0]), "predict": learner.predict(batches[0][0])}
    for table in ("state", "buffers", "parameters"):
        found |= {f"{table} {name}": array for name, array in getattr(learner, table).items()}
    return {name: np.ravel(array) for name, array in found.items()}


def parsed(text: str) -> dict[str, np.ndarray]:
    """Parse the output of a program: after each name, its numbers."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        name, number = line.rsplit(" ", 1)
        found.setdefault(name, []).append(number)
    return {name: np.array(column, float) for name, column in found.items()}
