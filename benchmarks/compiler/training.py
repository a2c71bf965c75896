"""Compilation and training of larger models: `python -m benchmarks.compiler.training`.

Measures the compilation of a model with the shape of GPT-2, and the step of the character GPT, compared with
PyTorch's, both with one thread. Takes a minute.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

import numpy as np
import typer

from benchmarks.harness import best, in_turns
from benchmarks.options import Keep, Only, is_chosen
from benchmarks.records import Row
from benchmarks.tables import pair, report
from catgrad import Dtype, NdArrayType, Task, emit, losses, optimisers
from catgrad.learn.entries import program
from catgrad.learn.task import COMPILED
from catgrad.programs.ports import Kind
from catgrad.targets import get_backend
from examples.char_gpt import BATCH, CONTEXT, DEPTH, HEADS, WIDTH, gpt

SIZE, VOCABULARY = 12, 65


def compiling() -> Iterator[Row]:
    """Build, differentiate and emit all functions of 12 layers, for two targets."""

    def gpt_2() -> Task:
        labels = (NdArrayType((BATCH, 64), Dtype.int64),)
        model = gpt(50257, depth=12, width=768, heads=12, context=64)
        return Task(model, optimisers.adamw(1e-3), losses.cross_entropy, "gpt_2", labels)

    seconds = {target: best(lambda t=target: emit(gpt_2(), t, COMPILED), 3) for target in ("numpy", "torch")}
    step = program(gpt_2(), get_backend("numpy").has).kinds[Kind.STEP]
    print(f"GPT-2's shape: {gpt_2().model.H.X} operations; {len(step.body)} in step as it is emitted from")
    for target, time in seconds.items():
        yield pair(f"compile GPT-2's shape for {target}", time, "target numpy", seconds["numpy"], "≤ 3 s")


def stepping() -> Iterator[Row]:
    """Measure the character GPT: 4 layers of width 128, 12 windows of 64 characters."""
    import torch

    from benchmarks.peers.torch_nets.transformers import Gpt, stepper

    torch.set_num_threads(1)
    # The peer has a constant rate; a schedule would only slow it down.
    decaying, plain = (optimisers.adamw(1e-3, weight_decay=decay) for decay in (0.1, 0.0))
    optimiser = optimisers.clipped(optimisers.grouped(lambda p: decaying if p.type.rank > 1 else plain), 1.0)
    labels = (NdArrayType((SIZE, CONTEXT), Dtype.int64),)
    task = Task(gpt(VOCABULARY, SIZE), optimiser, losses.cross_entropy, "char_gpt", labels)
    learner = emit(task, "torch").load()().learner(0)
    net = Gpt(VOCABULARY, CONTEXT, WIDTH, HEADS, DEPTH)
    net.take(learner.parameters)
    step = stepper(net, 1e-3, 0.1, 1.0)
    rng = np.random.default_rng(0)
    x, y = (torch.tensor(rng.integers(0, VOCABULARY, (SIZE, CONTEXT))) for _ in range(2))
    for _ in range(5):
        np.testing.assert_allclose(float(learner.step(x, y)), float(step(x, y)), rtol=1e-4)
    calls = {"ours": lambda: learner.step(x, y), "eager": lambda: step(x, y)}
    ours, eager = map(median, in_turns(calls, 11, 10).values())
    yield pair("emitted torch step of the character GPT", ours, "PyTorch eager", eager, "≤ 1.0")


def main(only: Only = "", keep: Keep = False) -> None:
    """Run all, or the parts step and compile that are named, and print the table."""
    parts = {"step": stepping, "compile": compiling}
    rows = [row for name, part in parts.items() if is_chosen(name, only) for row in part()]
    report("training", "models of real size", "python -m benchmarks.compiler.training", rows, keep)


if __name__ == "__main__":
    typer.run(main)
