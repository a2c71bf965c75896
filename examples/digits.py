"""Handwritten digits: a small convolutional network on 1,797 images of 8 × 8 pixels.

    python -m catgrad.examples.digits --plot digits.png

Prints the emitted training step, trains on emitted code only, and prints the accuracy on held-out digits.
With `--target scratch` a smaller network trains in Scratch, whose editor is slow with many blocks, and
writes digits.sb3, a project that trains again at its green flag. Data: scikit-learn's copy of the test set of
Alpaydin and Kaynak 1998, Optical Recognition of Handwritten Digits (UCI). Needs the package scikit-learn.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import typer

from catgrad import Dim, Dtype, NdArrayType, Task, accuracy, emit, fit, layers, losses, optimisers, sgd
from catgrad.artifact import Artifact
from catgrad.errors import ToolError
from catgrad.playground import Samples, View

from .options import IN_SCRATCH, BatchSize, Plot, Project, Seed, Steps, Target, run
from .source import training_step

BATCH = Dim("batch")
TRAINING = 1437  # four fifths of the images
SHOWN = 500  # the number in a project, so that it measures its accuracy in half a second
LOGITS = layers.pointwise(lambda x: x)
LABELS = (NdArrayType((BATCH,), Dtype.int64),)


def image(channels: int, side: int) -> NdArrayType:
    """Return a batch of square images."""
    return NdArrayType((BATCH, channels, side, side))


def cnn() -> Task:
    """Two convolutions with pooling, then one dense layer: 1,898 parameters."""
    model = layers.sequential(
        layers.conv(image(1, 8), 8, size=3, padding=1),
        layers.relu(image(8, 8)),
        layers.max_pool(image(8, 8), 2),
        layers.conv(image(8, 4), 16, size=3, padding=1),
        layers.relu(image(16, 4)),
        layers.max_pool(image(16, 4), 2),
        layers.flatten(image(16, 2)),
        layers.dense(NdArrayType((BATCH,)), NdArrayType((64,)), NdArrayType((10,)), activation=LOGITS),
    )
    return Task(model, optimisers.adam(3e-3), losses.cross_entropy, "digits", LABELS)


def mlp() -> Task:
    """Two dense layers: 2,410 parameters, but one custom block of a few lines for each."""
    pixels, hidden, scores = (NdArrayType((size,)) for size in (64, 32, 10))
    model = layers.sequential(
        layers.flatten(image(1, 8)),
        layers.dense(NdArrayType((BATCH,)), pixels, hidden),
        layers.dense(NdArrayType((BATCH,)), hidden, scores, activation=LOGITS),
    )
    return Task(model, sgd(0.5), losses.cross_entropy, "digits", LABELS)


def load() -> tuple[np.ndarray, np.ndarray]:
    """Load images, as float32 between 0 and 1, and digits. Raises: ToolError without scikit-learn."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise ToolError(
            "scikit-learn, which contains the digits, must be installed",
            "it is not",
            "pip install scikit-learn",
        ) from None
    digits = load_digits()
    # They are sorted by writer.
    order = np.random.default_rng(0).permutation(len(digits.target))
    return (digits.images[order, None] / 16).astype(np.float32), digits.target[order].astype(np.int64)


def samples() -> Samples:
    """Return some of the digits for a page, which `catgrad playground` writes."""
    note = f"{SHOWN} of 1,797 digits by Alpaydin and Kaynak, 1998. The pad is reduced to 8 × 8 pixels."
    x, y = load()
    return Samples(
        x[:SHOWN],
        y[:SHOWN],
        batch=50,
        view=View.DIGIT,
        classes=tuple(map(str, range(10))),
        logits=True,
        title="Handwritten digits",
        note=note,
    )


def in_scratch(x: np.ndarray, y: np.ndarray, batch_size: int) -> Artifact:
    """Return the smaller network as a project with some of the images, and few blocks."""
    data, names = (x[:SHOWN], y[:SHOWN]), tuple(map(str, range(10)))
    return emit(mlp(), "scratch", batch=batch_size, data=data, classes=names, unroll="compact")


def main(
    target: Target = "numpy",
    steps: Steps = 700,
    seed: Seed = 0,
    batch_size: BatchSize = 64,
    plot: Plot = None,
    project: Project = Path("digits.sb3"),
) -> None:
    """Train a small convolutional network on handwritten digits, on emitted source only."""
    x, y = load()
    held_out, digits = x[TRAINING:], y[TRAINING:]
    is_scratch = target == "scratch"
    batch_size = min(batch_size, IN_SCRATCH) if is_scratch else batch_size
    artifact = in_scratch(x, y, batch_size) if is_scratch else emit(cnn(), target)
    typer.echo(training_step(artifact.source))
    learner = artifact.load()().learner(seed)
    training = (x[:TRAINING], y[:TRAINING])
    history = fit(learner, training, steps=steps, batch_size=batch_size, seed=seed, drop_last=is_scratch)
    scores = np.asarray(learner.predict(held_out))
    typer.echo(f"accuracy: {accuracy(scores, digits):.1%} of {len(digits)} digits not trained on")
    if is_scratch:
        learner.save(project)
        typer.echo(f"project: {project}")
    if plot is not None:
        from .plots import losses_and_images

        losses_and_images(plot, history.losses, held_out[:, 0], scores.argmax(axis=1), digits)
        typer.echo(f"plot: {plot}")


if __name__ == "__main__":
    run(main)
