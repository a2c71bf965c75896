"""Speed of the compiler: `python -m benchmarks.core`.

Compiling a chain of dense layers against Python catgrad 0.2.2, an emitted training step against
one written by hand, and the import. Takes two minutes, most of them the peer's.
"""

from __future__ import annotations

import argparse

import numpy as np

from benchmarks.harness import Report, best, peer_python, seconds_printed, side_by_side, this_python
from catgrad import NdArrayType, Task, emit, layers, mse, sgd
from examples import iris

BATCH, WIDTH = NdArrayType((32,)), NdArrayType((16,))


def compile_chain(count: int, one_by_one: bool = False) -> None:
    """Build, differentiate, emit and load all functions of `count` dense layers."""
    chain = [layers.dense(BATCH, WIDTH, WIDTH) for _ in range(count)]
    model = chain[0]
    if one_by_one:
        for layer in chain[1:]:
            model = model >> layer
    else:
        model = layers.sequential(*chain)
    emit(Task(model, sgd(0.1), mse)).load()


def hand_written_step(w1, b1, w2, b2, x, y):  # noqa: D103
    h = 1 / (1 + np.exp(-(x @ w1 + b1)))
    y_hat = 1 / (1 + np.exp(-(h @ w2 + b2)))
    difference = y_hat - y
    loss = np.square(difference).sum() / y.size
    d2 = 2 / y.size * difference * y_hat * (1 - y_hat)
    d1 = (d2 @ w2.T) * h * (1 - h)
    return [loss, w1 - 5 * (x.T @ d1), b1 - 5 * d1.sum(axis=0), w2 - 5 * (h.T @ d2), b2 - 5 * d2.sum(axis=0)]


def compiling(report: Report, with_peer: bool) -> None:
    """Measure compilation of 128 and 1,024 dense layers."""
    compile_chain(2)
    small, one_by_one = best(lambda: compile_chain(128)), best(lambda: compile_chain(128, True))
    large = best(lambda: compile_chain(1024), repeats=3)
    if with_peer:
        python = peer_python(
            "catgrad-0.2.2", "catgrad==0.2.2", "torch==2.13.0"
        )  # it imports torch undeclared
        peer = seconds_printed(python, "benchmarks/peers/catgrad_chain.py", "128")
        report.add("compile 128 dense layers", small, "Python catgrad 0.2.2", peer, "≤ 1.5 s")
        report.add("the same, composed by >>", one_by_one, "Python catgrad 0.2.2", peer, "")
    report.add("compile 1,024 dense layers", large, "128 layers", small, "≤ 10")
    report.add(
        "the same, composed by >>", best(lambda: compile_chain(1024, True), 2), "128 by >>", one_by_one, ""
    )


def stepping(report: Report) -> None:
    """Measure the step of `hidden` at batch 150."""
    compiled = emit(iris.hidden()).load()()
    x, y = iris.load()
    p = compiled.init(0)
    for a, b in zip(compiled.step(*p, x, y), hand_written_step(*p, x, y), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    hand, emitted, checked = side_by_side(
        [
            lambda: hand_written_step(*p, x, y),
            lambda: compiled.step.function(*p, x, y),
            lambda: compiled.step(*p, x, y),
        ]
    )
    report.add("emitted step of `hidden`, batch 150", emitted, "hand-written NumPy", hand, "≤ 1.15")
    report.add("the same, arguments checked", checked, "hand-written NumPy", hand, "≤ 1.15")


def importing(report: Report) -> None:
    """Measure `import catgrad` in a fresh interpreter."""
    timed = "import time; start = time.perf_counter(); import {}; print(time.perf_counter() - start)"
    ours, numpy = (
        min(seconds_printed(this_python(), "-c", timed.format(name)) for _ in range(7))
        for name in ("catgrad", "numpy")
    )
    report.add("import catgrad", ours, "import numpy", numpy, "≤ 0.35 s")


def main() -> None:
    """Run all and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-peer", action="store_true", help="leave out Python catgrad (a minute)")
    options = parser.parse_args()
    report = Report("core", "the compiler", "python -m benchmarks.core")
    importing(report)
    stepping(report)
    compiling(report, with_peer=not options.no_peer)
    report.finish()


if __name__ == "__main__":
    main()
