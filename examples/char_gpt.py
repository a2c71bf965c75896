"""A character-level GPT, trained on Genesis.

    python -m catgrad.examples.char_gpt --plot gpt.png

Prints the emitted training step, trains on emitted code only, then prints the loss on held-out text, the
entropy of bigrams for comparison, and a generated text. Data: the King James Version, in the public domain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Annotated, Any

import numpy as np
import typer

from catgrad import (
    Dim,
    Dtype,
    NdArrayType,
    Task,
    Term,
    build,
    emit,
    evaluate,
    fit,
    layers,
    losses,
    ops,
    optimisers,
)
from catgrad.initialisers import Normal
from catgrad.learn.schedules import cosine
from catgrad.terms.state import Slot

from . import text
from .options import BatchSize, Plot, Seed, Steps, Target, run
from .source import training_step

CONTEXT, WIDTH, HEADS, DEPTH = 64, 128, 4, 4
BATCH = Dim("batch")
TRAINING = 0.9
INITIAL = Normal(0.0, 0.02)
GELU = layers.pointwise(ops.gelu_tanh)


def gpt(
    vocabulary: int,
    batch: int | Dim = BATCH,
    depth: int = DEPTH,
    width: int = WIDTH,
    heads: int = HEADS,
    context: int = CONTEXT,
    remembering: bool = False,
) -> Term:
    """Scores of the next character at every position: embeddings, blocks, and a linear map.

    With `remembering`, a key/value cache: one character at a time.
    """
    length, memory = (1, context) if remembering else (context, None)
    places, features = NdArrayType((batch, length)), NdArrayType((width,))
    characters = NdArrayType((batch, length), Dtype.int64)

    def with_positions(x: Any) -> Any:
        positions = layers.parameter("positions.weight", NdArrayType((context, width)), INITIAL)
        return x + ops.broadcast(positions, x.shape)

    model = layers.embedding(characters, vocabulary, features, "characters", INITIAL)
    if remembering:
        model = model >> layers.position_embedding(places, features, context, "positions", INITIAL)
    else:
        model = model >> build(with_positions, [places + features])
    for k in range(depth):
        model = model >> layers.transformer_block(
            places,
            features,
            heads,
            activation=GELU,
            causal=True,
            name=f"block_{k}",
            initial=INITIAL,
            memory=memory,
        )
    norm = layers.layer_norm(places, features, name="norm")
    return model >> norm >> layers.linear(places, features, NdArrayType((vocabulary,)), "scores", INITIAL)


def task(vocabulary: int, steps: int, batch: int | Dim = BATCH) -> Task:
    """Return the GPT with its optimiser."""
    labels = (NdArrayType((batch, CONTEXT), Dtype.int64),)
    return Task(gpt(vocabulary, batch), optimiser(steps), losses.cross_entropy, "char_gpt", labels)


def optimiser(steps: int) -> optimisers.Optimiser:
    """Return AdamW: no decay of vectors, warm-up and cosine schedule, gradient clipping."""
    rate = cosine(1.5e-3, steps, warm_up=min(100, steps - 1), least=1e-4)
    decaying, plain = (optimisers.adamw(rate, weight_decay=decay) for decay in (0.1, 0.0))

    def by_rank(parameter: Slot) -> optimisers.Optimiser:
        return decaying if parameter.type.rank > 1 else plain

    return optimisers.clipped(optimisers.grouped(by_rank), 1.0)


def windows(
    numbers: np.ndarray, size: int, seed: int, context: int = CONTEXT
) -> Callable[[int], Iterator[tuple[Any, Any]]]:
    """Yield batches of random windows of the text, with the next characters as labels."""

    def batches(epoch: int) -> Iterator[tuple[Any, Any]]:
        rng = np.random.default_rng((seed, epoch))
        for _ in count():
            starts = rng.integers(0, len(numbers) - context, size)[:, None] + np.arange(context)
            yield numbers[starts], numbers[starts + 1]

    return batches


def held_out(numbers: np.ndarray, size: int = 64, context: int = CONTEXT) -> list[tuple[Any, Any]]:
    """Cut the text into adjacent windows, with the next characters as labels."""
    rows = numbers[: (len(numbers) - 1) // context * context].reshape(-1, context)
    following = numbers[1 : rows.size + 1].reshape(-1, context)
    return [(rows[i : i + size], following[i : i + size]) for i in range(0, len(rows), size)]


def write(learner: Any, prompt: np.ndarray, length: int, seed: int, temperature: float = 0.8) -> list[int]:
    """Sample characters after the prompt from the predictions of the model."""
    rng, written = np.random.default_rng(seed), list(prompt)
    for _ in range(length):
        seen = written[-CONTEXT:]
        # Attention is causal, so characters after the last one do not matter.
        window = np.array([seen + [0] * (CONTEXT - len(seen))])
        scores = np.asarray(learner.predict(window))[0, len(seen) - 1]
        written.append(sample(rng, scores / temperature))
    return written


def sample(rng: np.random.Generator, scores: np.ndarray) -> int:
    """Draw a number with probabilities softmax(scores)."""
    chances = np.exp(scores - scores.max(), dtype=np.float64)
    return int(rng.choice(len(chances), p=chances / chances.sum()))


def main(
    target: Target = "numpy",
    steps: Steps = 900,
    seed: Seed = 0,
    batch_size: BatchSize = 12,
    length: Annotated[int, typer.Option(min=0, help="How many characters to write at the end.")] = 400,
    plot: Plot = None,
) -> None:
    """Train a small GPT on the characters of Genesis, on emitted source only."""
    book = text.load()
    characters = text.alphabet(book)
    numbers = text.encode(book, characters)
    cut = int(TRAINING * len(numbers))
    artifact = emit(task(len(characters), steps), target, functions=("predict", "step", "loss"))
    typer.echo(training_step(artifact.source))
    learner = artifact.load()().learner(seed)
    history = fit(learner, windows(numbers[:cut], batch_size, seed), steps=steps)
    loss = evaluate(learner, held_out(numbers[cut:]))["loss"]
    entropy = text.bigram_entropy(book)
    typer.echo(f"loss: {loss:.3f} nats a character on text not trained on; bigram entropy: {entropy:.3f}")
    prompt = text.encode("And God said", characters)
    typer.echo(text.decode(write(learner, prompt, length, seed), characters))
    if plot is not None:
        from .plots import losses_and_line

        losses_and_line(plot, history.losses, entropy, "bigram entropy")
        typer.echo(f"plot: {plot}")


if __name__ == "__main__":
    run(main)
