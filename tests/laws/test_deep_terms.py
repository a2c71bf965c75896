"""Laws of deep terms: values computed from each other a thousand times compile, and mean the same."""

from __future__ import annotations

import numpy as np
import pytest

from catgrad import NdArrayType, Task, build, layers, mse, ops, sgd
from catgrad.functors import reverse
from catgrad.learn.optimiser import clipped
from catgrad.loops.ir.nest import Kernel, scalars, statements
from catgrad.loops.ir.steps import every_step
from catgrad.loops.lowering.materialise import MAX_DEPTH
from catgrad.loops.reference import run
from catgrad.programs.program import evaluate
from catgrad.targets import get_backend
from catgrad.terms.canonical import digest
from catgrad.testing import run_on
from tests.covering import some
from tests.kernels import SCALARS, compiled
from tests.targets import emit, on

DEEP = 1000
ROW, NUMBER = NdArrayType((6,)), NdArrayType(())


def maps(x):
    for k in range(DEEP):
        x = ops.sin(x) if k % 2 else x * 0.5
    return x


def leaning_left(x):
    total = x
    for k in range(DEEP):
        total = total + x if k % 2 else total - 0.5 * x
    return total


def leaning_right(x):
    total = x
    for k in range(DEEP):
        total = x * (k / DEEP) - total
    return total


def views(x):
    for k in range(DEEP):
        x = ops.transpose(ops.reshape(x, 2, 3) if k % 2 else ops.reshape(x, 3, 2))
        x = ops.reshape(x * 1.001 if k % 5 == 0 else x, 6)
    return x


def choices(x):
    result = x
    for k in range(DEEP):
        result = ops.select(x > k / DEEP, result + 0.01, x)
    return result


CHAINS = {
    "maps": (maps, ROW),
    "maps of a number": (maps, NUMBER),
    "leaning left": (leaning_left, ROW),
    "leaning right": (leaning_right, ROW),
    "views": (views, ROW),
    "choices": (choices, ROW),
}
TARGETS = on(
    "numpy", "torch", "torch-module", "c", "cuda", "ggml", "javascript", "wasm", "scratch", "onnx",
    long=("cuda", "ggml", "wasm", "scratch", "torch-module"),
)  # fmt: skip


def term_and_input(name):
    function, type = CHAINS[name]
    return build(function, [type]), np.linspace(0.1, 0.9, 6, dtype=np.float32)[: type.size].reshape(
        type.shape
    )


@pytest.mark.covering
@TARGETS
@pytest.mark.parametrize("name", CHAINS)
def test_deep_terms_mean_the_same_on_every_target(target, name):
    term, x = term_and_input(name)
    [found], [wanted] = run_on(get_backend(target), term, x), evaluate(term, x)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", some(CHAINS, CHAINS.keys() - {"choices", "maps of a number"}))
def test_no_expression_of_a_kernel_is_deep(name):
    term, x = term_and_input(name)
    lowered = compiled(reverse(term), SCALARS)
    kernels = [step for step in every_step(lowered.steps) if isinstance(step, Kernel)]
    depths = [scalar.depth for kernel in kernels for s in statements(kernel.body) for scalar in scalars(s)]
    assert max(depths) <= 2 * MAX_DEPTH  # a view or a padding may be a choice, and so two operations
    found, wanted = run(lowered, x, np.ones_like(x)), evaluate(reverse(term), x, np.ones_like(x))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", CHAINS)
def test_deep_terms_have_hashes(name):
    assert digest(term_and_input(name)[0]) == digest(term_and_input(name)[0])


@on("javascript", "c", long=("c",))
def test_the_norm_of_many_gradients_compiles(target):
    batch, width = NdArrayType((2,)), NdArrayType((2,))
    model = layers.sequential(*[layers.dense(batch, width, width) for _ in range(160)])
    task = Task(model, clipped(sgd(0.1), 1.0), mse, "tower")
    learner = emit(task, target).load()().learner(seed=0)
    assert np.isfinite(learner.step(*[np.ones((2, 2), np.float32)] * 2))
