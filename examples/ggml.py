"""Models that emitted C++ on ggml trains alone: no Python runs in its process.

    python -m catgrad.examples.ggml digits --reader c

Emits a program and writes its data, builds it by CMake, runs it, and loads its GGUF file of weights into
another target, which predicts. Prints the commands, the loss of each epoch and the accuracy; `--folder`
keeps the files. Needs the packages ggml-python and scikit-learn, and torch for vit.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
import typer
from catgrad.backends.c.cmake import CMAKE
from catgrad.backends.ggml.tools import GGML, NEEDS

from catgrad import Task, accuracy, emit, evaluate
from catgrad.errors import ToolError
from catgrad.formats import safetensors
from catgrad.learn.fit import checkpoint

from . import char_gpt, digits, iris, text, vit
from .options import Seed, run


@dataclass(frozen=True)
class Training:
    """A task, its data, the numbers of epochs and of examples in a step, and a description of the result."""

    task: Task
    data: Mapping[str, np.ndarray]
    epochs: int
    batch: int
    describe: Callable[[Any], str]


def told(x: np.ndarray, y: np.ndarray, what: str) -> Callable[[Any], str]:
    """Return a function that describes a learner by the share of labels that it tells."""

    def describe(learner: Any) -> str:
        return f"accuracy: {accuracy(np.asarray(learner.predict(x)), y):.1%} of {len(x)} {what}"

    return describe


def flowers(seed: int) -> Training:
    """Train two dense layers on irises."""
    x, y = iris.load()
    return Training(iris.hidden(), {"x": x, "y": y}, 60, 15, told(x, y, "flowers"))


def pictures(seed: int) -> Training:
    """Train a convolutional network on handwritten digits."""
    (x, y), cut = digits.load(), digits.TRAINING
    describe = told(x[cut:], y[cut:], "digits not trained on")
    return Training(digits.cnn(), {"x": x[:cut], "y": y[:cut]}, 30, 64, describe)


def characters(seed: int) -> Training:
    """Train a GPT on windows of Genesis."""
    book, batch, epochs, context = text.load(), 12, 4, char_gpt.CONTEXT
    numbers = text.encode(book, text.alphabet(book))
    cut = int(char_gpt.TRAINING * len(numbers))
    starts = np.arange(0, cut - context, context)[:, None] + np.arange(context)
    data = {"x": numbers[starts], "y": numbers[starts + 1]}
    task = char_gpt.task(len(text.alphabet(book)), epochs * -(-len(starts) // batch))

    def describe(learner: Any) -> str:
        loss = evaluate(learner, char_gpt.held_out(numbers[cut:]))["loss"]
        entropy = text.bigram_entropy(book)
        return f"loss: {loss:.3f} nats a character on text not trained on; bigram entropy: {entropy:.3f}"

    return Training(task, data, epochs, batch, describe)


def transformer(seed: int) -> Training:
    """Train an imported vision transformer on handwritten digits."""
    (x, y), cut, imported = digits.load(), digits.TRAINING, vit.imported(seed=seed)
    [name], epochs = imported.inputs, 10
    data, describe = {name: x[:cut], "y": y[:cut]}, told(x[cut:], y[cut:], "digits not trained on")
    return Training(vit.task(imported, epochs * vit.EPOCH), data, epochs, vit.BATCH, describe)


class Model(StrEnum):
    """The models to choose from."""

    iris = "iris"
    digits = "digits"
    char_gpt = "char_gpt"
    vit = "vit"


TRAININGS = {
    Model.iris: flowers,
    Model.digits: pictures,
    Model.char_gpt: characters,
    Model.vit: transformer,
}


def call(*command: str | Path | int) -> None:
    """Print a command and run it. Raises: ToolError if it fails"""
    words = [str(word) for word in command]
    typer.echo(f"$ {shlex.join(words)}")
    if code := subprocess.run(words, check=False).returncode:
        raise ToolError("a command must succeed", f"`{words[0]}` ends with {code}", "read what it says")


def trained(training: Training, folder: Path, seed: int, threads: int) -> Path:
    """Emit, build and run the program; returns the file of weights."""
    for tool in NEEDS:
        tool.require("training on ggml")
    artifact = emit(training.task, "ggml")
    files = artifact.write(folder)
    safetensors.write(folder / "data.safetensors", training.data)
    build, found, weights = folder / "build", GGML.prefix(), folder / "weights.gguf"
    call(*CMAKE.command(), "--log-level=ERROR", "-S", folder, "-B", build, f"-DCMAKE_PREFIX_PATH={found}")
    call(*CMAKE.command(), "--build", build)
    sizes = ["--epochs", training.epochs, "--batch", training.batch, "--seed", seed, "--threads", threads]
    stored = ["--weights", files[-1]] if artifact.values else []
    call(build / "train", "--data", folder / "data.safetensors", *sizes, *stored, "--out", weights)
    return weights


def main(
    model: Annotated[Model, typer.Argument(help="Which network to train.")] = Model.digits,
    reader: Annotated[str, typer.Option(help="The target that loads the weights and predicts.")] = "numpy",
    folder: Annotated[Path | None, typer.Option(help="Keep the program and its files here.")] = None,
    threads: Annotated[int, typer.Option(min=1, help="Threads of the program.")] = 1,
    seed: Seed = 0,
) -> None:
    """Train a network by a program in C++ on ggml, and use its weights on another target."""
    training = TRAININGS[model](seed)
    with TemporaryDirectory() as own:
        weights = trained(training, folder or Path(own), seed, threads)
        learner = emit(training.task, reader, functions=("predict", "step", "loss")).load()().learner(seed)
        checkpoint.load(learner, weights)
    typer.echo(training.describe(learner))


if __name__ == "__main__":
    run(main)
