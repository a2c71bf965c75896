"""A tiny GPT that generates text like Genesis, in Scratch.

    python -m catgrad.examples.scratch_writer --target c --steps 10000

Trains on emitted code for any target, exports the weights to a sprite with a key/value cache, and prints a
text that the sprite generates in Scratch's virtual machine. Open
writer.sb3 in Scratch and click the flag. Data: the letters of the King James Version, which is in
the public domain.
"""

from __future__ import annotations

import re
from pathlib import Path
from string import ascii_lowercase
from typing import Annotated, Any

import numpy as np
import typer

from catgrad import Dim, Dtype, NdArrayType, Task, emit, evaluate, fit, losses, optimisers
from catgrad.artifact import Artifact
from catgrad.learn.schedules import cosine
from catgrad.tokenizers import CharTokenizer

from . import text
from .char_gpt import BATCH, gpt, held_out, windows
from .options import BatchSize, Seed, Steps, Target, run

CONTEXT, WIDTH, HEADS, DEPTH = 48, 48, 4, 1
"""One wide layer: two layers of width 32 learn as much, with twice as many blocks."""

TRAINING = 0.9
LETTERS = CharTokenizer((" ", *ascii_lowercase), unknown=0, lowercase=True)
"""Letters of either case, and a space for all else."""


def task(steps: int, batch: int | Dim = BATCH, remembering: bool = False) -> Task:
    """Return the GPT for a window of text, or for one letter with a key/value cache."""
    optimiser = optimisers.clipped(optimisers.adamw(cosine(5e-3, steps, min(100, steps - 1), 5e-4)), 1.0)
    model = gpt(len(LETTERS.vocabulary), batch, DEPTH, WIDTH, HEADS, CONTEXT, remembering)
    labels = NdArrayType((batch, 1 if remembering else CONTEXT), Dtype.int64)
    return Task(model, optimiser, losses.cross_entropy, "writer", (labels,))


def numbers() -> np.ndarray:
    """Return Genesis in letters and single spaces."""
    return np.array(LETTERS.encode(re.sub(r"[^A-Za-z]+", " ", text.load())), np.int64)


def trained(target: str, steps: int, seed: int, size: int) -> tuple[Any, float]:
    """Train a learner, and return it with its loss on held-out text."""
    letters = numbers()
    cut = int(TRAINING * len(letters))
    learner = emit(task(steps), target, functions=("predict", "step", "loss")).load()().learner(seed)
    fit(learner, windows(letters[:cut], size, seed, CONTEXT), steps=steps)
    return learner, evaluate(learner, held_out(letters[cut:], context=CONTEXT))["loss"]


def sprite(parameters: Any) -> Artifact:
    """Emit a sprite with these weights and few blocks."""
    model = task(2, batch=1, remembering=True)
    return emit(model, "scratch", tokenizer=LETTERS, weights=parameters, sig_figs=4, unroll="compact")


def write(artifact: Artifact, begin: str) -> str:
    """Continue a text by the sprite; return the text, or the error."""
    from catgrad.backends.scratch.machine.projects import Machine, missing

    if reason := missing("vanilla"):
        return f"nothing, for {reason}"
    machine = Machine()
    machine.load(artifact.files["writer.sb3"])
    machine.set_variable("text", begin)
    machine.set_variable("how many", CONTEXT)  # as many as fit
    machine.broadcast("write")
    return str(machine.variable("error") or machine.variable("text"))


def main(
    target: Target = "numpy",
    steps: Steps = 3000,
    seed: Seed = 0,
    batch_size: BatchSize = 16,
    begin: Annotated[str, typer.Option(help="What the sprite goes on with.")] = "And God said",
    out: Annotated[Path, typer.Option(help="The folder for the sprite and a project with it.")] = Path(
        "writer"
    ),
) -> None:
    """Train a tiny GPT on the letters of Genesis, and write a sprite that generates text."""
    from catgrad.backends.scratch.assemble import count_blocks

    learner, loss = trained(target, steps, seed, batch_size)
    typer.echo(f"loss: {loss:.3f} nats a letter on text not trained on")
    artifact = sprite(learner.parameters)
    artifact.write(out)
    typer.echo(f"sprite: {count_blocks(artifact.source):,} blocks, in {out}")
    typer.echo(f"it writes: {write(artifact, begin)}")


if __name__ == "__main__":
    run(main)
