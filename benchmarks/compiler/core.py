"""Speed of the compiler: `python -m benchmarks.compiler.core`.

Compiling a chain of dense layers against Python catgrad 0.2.2, emission to C, an emitted training step
against one written by hand, and the import. Takes some minutes.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from statistics import median
from tempfile import TemporaryDirectory
from typing import Annotated

import numpy as np
import typer
from catgrad.backends.c.compiler import COMPILER, C

from benchmarks.cpu.workloads import chosen
from benchmarks.harness import best, in_turns, peer_python, seconds_printed
from benchmarks.options import Keep, Only, is_chosen
from benchmarks.records import Row
from benchmarks.tables import pair, report
from benchmarks.workloads import GPT_STEPS, Workload
from catgrad import NdArrayType, Task, Term, emit, layers, mse, sgd
from catgrad.learn.task import COMPILED
from examples import iris

BATCH, WIDTH = NdArrayType((32,)), NdArrayType((16,))


def compile_chain(count: int, one_by_one: bool = False) -> None:
    """Build, differentiate, emit and load all functions of `count` dense layers."""
    chain = dense_layers(count)
    model = chain[0]
    if one_by_one:
        for layer in chain[1:]:
            model = model >> layer
    else:
        model = layers.sequential(*chain)
    emit(Task(model, sgd(0.1), mse), functions=COMPILED).load()


def hand_written_step(w1, b1, w2, b2, x, y):  # noqa: D103
    h = 1 / (1 + np.exp(-(x @ w1 + b1)))
    y_hat = 1 / (1 + np.exp(-(h @ w2 + b2)))
    difference = y_hat - y
    loss = np.square(difference).sum() / y.size
    d2 = 2 / y.size * difference * y_hat * (1 - y_hat)
    d1 = (d2 @ w2.T) * h * (1 - h)
    return [loss, w1 - 5 * (x.T @ d1), b1 - 5 * d1.sum(axis=0), w2 - 5 * (h.T @ d2), b2 - 5 * d2.sum(axis=0)]


def compiling(with_peer: bool) -> Iterator[Row]:
    """Measure compilation of 128 and 1,024 dense layers."""
    compile_chain(2)
    small, one_by_one = best(lambda: compile_chain(128)), best(lambda: compile_chain(128, True))
    large = best(lambda: compile_chain(1024), repeats=3)
    if with_peer:
        # It imports torch undeclared.
        python = peer_python("catgrad-0.2.2", "catgrad==0.2.2", "torch==2.13.0")
        peer = seconds_printed(python, "benchmarks/peers/catgrad_chain.py", "128")
        yield pair("compile 128 dense layers", small, "Python catgrad 0.2.2", peer, "≤ 1.5 s")
        yield pair("the same, composed by >>", one_by_one, "Python catgrad 0.2.2", peer)
    yield pair("compile 1,024 dense layers", large, "128 layers", small, "≤ 10")
    slow = best(lambda: compile_chain(1024, True), 2)
    yield pair("1,024 dense layers, composed by >>", slow, "128 by >>", one_by_one)


def c_seconds(task: Task) -> tuple[float, float]:
    """Emit a task to C, and compile it; returns the processor times of both."""
    start = time.process_time()
    artifact = emit(task, "c")
    emitted = time.process_time() - start
    with TemporaryDirectory() as folder:
        artifact.write(folder)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [*COMPILER.command(), *C.options(), *C.shared, f"{task.name}.c", "-o", "library.so", "-lm"]
        subprocess.run(command, cwd=folder, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return emitted, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def transformer(net: str, **sizes: int) -> Task:
    """Return the training of a transformer by AdamW, as in `benchmarks.workloads`."""
    return Workload(
        net, net, net, {k: v for k, v in sizes.items() if k != "batch"}, sizes["batch"], optimiser=GPT_STEPS
    ).task


def emitting_c() -> Iterator[Row]:
    """Measure emission to C, and its compiler, by processor time."""
    tasks = {
        f"{count} dense layers": (Task(layers.sequential(*dense_layers(count)), sgd(0.1), mse), goal)
        for count, goal in ((64, ""), (128, "emit ≤ 8 s"), (1024, "emit ≤ 10 times 128"))
    }
    deep = transformer("gpt", batch=12, vocabulary=65, depth=32, width=128, heads=4, context=64)
    tasks["a transformer of 32 layers"] = deep, "emit ≤ 20 s"
    gpt2 = transformer("tied_gpt", batch=1, vocabulary=50257, depth=12, width=768, heads=12, context=128)
    tasks["GPT-2 124M"] = gpt2, "emit + compiler ≤ 15 s"
    [unet] = chosen("unet")
    tasks["a U-Net"] = unet.task, "emit + compiler ≤ 8 s"
    for what, (task, goal) in tasks.items():
        emitted, compiled = c_seconds(task)
        yield pair(f"emit {what} to C", emitted, "C compiler", compiled, goal)


def dense_layers(count: int) -> list[Term]:
    """Return equal dense layers."""
    return [layers.dense(BATCH, WIDTH, WIDTH) for _ in range(count)]


def stepping() -> Iterator[Row]:
    """Measure the step of `hidden` at batch 150."""
    compiled = emit(iris.hidden()).load()()
    x, y = iris.load()
    p = compiled.init(0)
    for a, b in zip(compiled.step(*p, x, y), hand_written_step(*p, x, y), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    calls = {
        "hand": lambda: hand_written_step(*p, x, y),
        "emitted": lambda: compiled.step.function(*p, x, y),
        "checked": lambda: compiled.step(*p, x, y),
    }
    hand, emitted, checked = map(median, in_turns(calls, 15, 500).values())
    yield pair("emitted step of `hidden`, batch 150", emitted, "hand-written NumPy", hand, "≤ 1.15")
    yield pair("the same, arguments checked", checked, "hand-written NumPy", hand, "≤ 1.15")


def importing() -> Iterator[Row]:
    """Measure `import catgrad` in a fresh interpreter."""
    timed = "import time; start = time.perf_counter(); import {}; print(time.perf_counter() - start)"
    ours, numpy = (
        min(seconds_printed(sys.executable, "-c", timed.format(name)) for _ in range(7))
        for name in ("catgrad", "numpy")
    )
    yield pair("import catgrad", ours, "import numpy", numpy, "≤ 0.35 s")


def main(
    no_peer: Annotated[bool, typer.Option("--no-peer", help="Leave out Python catgrad (a minute).")] = False,
    only: Only = "",
    keep: Keep = False,
) -> None:
    """Run all, or the parts import, step, emit and compile that are named, and print the table."""
    parts = {
        "import": importing,
        "step": stepping,
        "emit": emitting_c,
        "compile": partial(compiling, not no_peer),
    }
    rows = [row for name, part in parts.items() if is_chosen(name, only) for row in part()]
    report("core", "the compiler", "python -m benchmarks.compiler.core", rows, keep)


if __name__ == "__main__":
    typer.run(main)
