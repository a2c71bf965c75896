"""A character-level Llama, trained on Genesis, that generates text with a key/value cache.

    python -m catgrad.examples.llama --target c

Trains on emitted code only, then prints the loss on held-out text, and a text that a second program generates
character by character, with the parameters of the first. Data: the King James Version, in the public domain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import typer

from catgrad import Dim, Dtype, Functions, NdArrayType, Task, Term, emit, evaluate, fit, layers, losses

from . import text
from .char_gpt import BATCH, CONTEXT, TRAINING, held_out, optimiser, sample, windows
from .options import BatchSize, Seed, Steps, Target, run

WIDTH, HIDDEN, HEADS, KV_HEADS, DEPTH = 128, 344, 4, 2, 4


def llama(
    vocabulary: int,
    batch: int | Dim = BATCH,
    length: int = CONTEXT,
    memory: int | None = None,
    window: int | None = None,
    depth: int = DEPTH,
    dtype: Dtype = Dtype.float32,
) -> Term:
    """Scores of the next token at every position; with `memory`, of one position, with a key/value cache."""
    places, features = NdArrayType((batch, length), dtype), NdArrayType((WIDTH,), dtype)
    model = layers.embedding(NdArrayType((batch, length), Dtype.int64), vocabulary, features, "tokens")
    for k in range(depth):
        model = model >> layers.named(f"layers.{k}", block(places, features, memory, window))
    norm = layers.rms_norm(places, features, name="norm")
    return model >> norm >> layers.linear(places, features, NdArrayType((vocabulary,), dtype), "scores")


def block(places: NdArrayType, features: NdArrayType, memory: int | None, window: int | None) -> Term:
    """Grouped-query attention with rotary positions, then SwiGLU, each after a norm."""
    attend = layers.attention(
        places, features, HEADS, causal=True, rotary=10000.0, bias=False, name="self_attn",
        memory=memory, kv_heads=KV_HEADS, window=window,
    )  # fmt: skip
    feed = layers.swiglu(places, features, HIDDEN)
    norm1, norm2 = (layers.rms_norm(places, features, name=name) for name in ("norm1", "norm2"))
    return layers.residual(norm1 >> attend) >> layers.residual(norm2 >> feed)


def task(vocabulary: int, steps: int) -> Task:
    """Return the Llama with the optimiser of the GPT."""
    labels = (NdArrayType((BATCH, CONTEXT), Dtype.int64),)
    return Task(llama(vocabulary), optimiser(steps), losses.cross_entropy, "llama", labels)


def writer(vocabulary: int) -> Functions:
    """Return the function from a character and the cache to the scores of the next character."""
    return Functions({"read": llama(vocabulary, batch=1, length=1, memory=CONTEXT)}, "llama_writer")


def write(
    model: Any,
    parameters: Sequence[Any],
    prompt: np.ndarray,
    length: int,
    seed: int,
    temperature: float = 0.8,
) -> list[int]:
    """Sample characters after the prompt, one call each."""
    rng, written, buffers = np.random.default_rng(seed), prompt.tolist(), model.init_buffers(0)
    for k in range(len(prompt) + length - 1):
        *buffers, scores = model.read(*buffers, *parameters, np.array([[written[k]]]))
        if k + 1 == len(written):
            written.append(sample(rng, np.asarray(scores)[0, 0] / temperature))
    return written


def main(
    target: Target = "numpy",
    steps: Steps = 900,
    seed: Seed = 0,
    batch_size: BatchSize = 12,
    length: Annotated[int, typer.Option(min=0, help="How many characters to write at the end.")] = 400,
) -> None:
    """Train a small Llama on the characters of Genesis, and let it write."""
    book = text.load()
    characters = text.alphabet(book)
    numbers = text.encode(book, characters)
    cut = int(TRAINING * len(numbers))
    learner = (
        emit(task(len(characters), steps), target, functions=("predict", "step", "loss"))
        .load()()
        .learner(seed)
    )
    fit(learner, windows(numbers[:cut], batch_size, seed), steps=steps)
    loss = evaluate(learner, held_out(numbers[cut:]))["loss"]
    typer.echo(f"loss: {loss:.3f} nats a character on text not trained on")
    functions = writer(len(characters))
    parameters = [learner.parameters[slot.name] for slot in functions.parameters]
    prompt = text.encode("And God said", characters)
    written = write(emit(functions, target).load()(), parameters, prompt, length, seed)
    typer.echo(text.decode(written, characters))


if __name__ == "__main__":
    run(main)
