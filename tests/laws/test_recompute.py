"""Recomputed and split training steps are those of the whole model, in less memory."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from catgrad.backends.c.budget import fitted, step_bytes

from catgrad import (
    Dim,
    Functions,
    NdArrayType,
    Task,
    build,
    compile_model,
    layers,
    losses,
    ops,
    optimisers,
    sgd,
)
from catgrad.errors import OptionError
from catgrad.functors import substitute
from catgrad.learn.recompute import in_parts, segmented
from catgrad.programs.ports import Kind
from catgrad.programs.program import evaluate
from catgrad.targets import get_backend
from catgrad.testing import draw_arrays
from examples.char_gpt import gpt
from tests.covering import some
from tests.targets import emit

N, BATCH = Dim("batch"), 32


def perceptron():
    B, sizes = NdArrayType((N,)), [NdArrayType((size,)) for size in (24, *[24] * 2, 5)]
    return layers.sequential(*(layers.dense(B, a, b, layers.tanh) for a, b in pairwise(sizes)))


def convolutional():
    first = layers.conv(NdArrayType((N, 2, 8, 8)), 3, 3, padding=1, name="a")
    second = layers.conv(first.target.table[0], 3, 3, padding=1, name="b")
    flat = layers.flatten(second.target.table[0])
    return layers.sequential(first, layers.relu(first.target.table), second, flat)


MODELS = {"perceptron": perceptron, "convolutional": convolutional, "gpt": lambda: gpt(7, N, 2, 16, 2, 6)}


CHANGES = {
    "2 segments": lambda model: segmented(model, 2),
    "5 segments": lambda model: segmented(model, 5),
    "2 parts": lambda model: in_parts(model, "batch", BATCH, 2),
    "32 parts": lambda model: in_parts(model, "batch", BATCH, 32),
    "both": lambda model: in_parts(segmented(model, 3), "batch", BATCH, 4),
}


@pytest.mark.covering
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("change", CHANGES)
def test_gradients_are_those_of_the_whole_model(name, change):
    models = MODELS[name](), CHANGES[change](MODELS[name]())
    first, second = (Task(substitute(m, {"batch": BATCH}), sgd(0.1), losses.mse, "net") for m in models)
    assert first.parameters == second.parameters
    terms = [task.term(Kind.GRADS) for task in (first, second)]
    arrays = draw_arrays(terms[0].source.table, (-1.0, 1.0))
    for found, wanted in zip(*(evaluate(term, *arrays) for term in terms), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def task_of(model):
    return Task(model, optimisers.adam(1e-2), losses.mse, "net")


@pytest.mark.parametrize("name", some(["perceptron", "convolutional"], ["convolutional"]))
def test_the_least_step_is_that_without_a_limit(name):
    """The error of a limit that is too low names the least, which can be met, with the same losses."""
    task, backend = task_of(MODELS[name]()), get_backend("c")
    arrays = draw_arrays([t.substitute({"batch": BATCH}) for t in (*task.inputs, *task.targets)], (-1.0, 1.0))
    whole = step_bytes(backend, fitted(backend.configured(batch=BATCH), task))
    with pytest.raises(OptionError, match="memory must be at least") as error:
        emit(task, "c", batch=BATCH, memory=1)
    least = int(re.findall(r"[\d,]+", str(error.value))[0].replace(",", ""))
    assert least < whole
    losses_of = []
    for limit in (0, least):
        changed = fitted(backend.configured(batch=BATCH, memory=limit), task)
        assert step_bytes(backend, changed) == (limit or whole)
        learner = emit(task, "c", batch=BATCH, memory=limit).load()().learner(0)
        losses_of.append([learner.step(*arrays) for _ in range(3)])
    np.testing.assert_allclose(*losses_of, rtol=1e-4)


def test_a_trade_is_reported():
    task = task_of(perceptron())
    whole = emit(task, "c", batch=BATCH)
    assert "## Memory" not in whole.files["README.md"]
    rolled = replace(task, rolls=True)  # as it is emitted
    least = step_bytes(get_backend("c"), fitted(get_backend("c").configured(batch=BATCH), rolled))
    traded = emit(task, "c", batch=BATCH, memory=least - 1)
    notes = json.loads(traded.files["manifest.json"])["notes"]
    assert any("segments" in note or "parts" in note for note in notes)
    assert f"Without this it would have {least:,} bytes." in notes
    assert all(note in traded.files["README.md"] for note in notes)
    compiled = compile_model(task.model, task.optimiser, task.loss, "c", batch=BATCH, memory=least - 1)
    assert compiled.source


def with_batch_norm():
    x = NdArrayType((N, 8))
    return layers.sequential(
        layers.linear(x.with_shape((N,)), *[NdArrayType((8,))] * 2), layers.batch_norm(x)
    )


def over_the_batch():
    return build(lambda x: x - ops.broadcast(ops.sum(x, 0), (N, 4)), [NdArrayType((N, 4))])


def transposed():
    return build(ops.transpose, [NdArrayType((N, 4))])


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (with_batch_norm, "statistics of the batch"),
        (over_the_batch, "one example changes the output of another"),
        (transposed, "one of its arrays is"),
    ],
)
def test_a_batch_that_must_not_be_split(model, reason):
    with pytest.raises(OptionError, match=reason):
        in_parts(model(), "batch", BATCH, 2)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"memory": 1000}, "batch is symbolic; give batch"),
        ({"memory": -1}, "memory must be a number above 0"),
        ({"memory": 1000, "openmp": True}, "without threads"),
        ({"memory": "many"}, "memory must be a whole number"),
        ({"memory": True}, "memory must be a whole number"),
    ],
)
def test_limits_that_cannot_be_met(options, reason):
    with pytest.raises(OptionError, match=reason):
        emit(task_of(perceptron()), "c", **options)


def test_a_batch_of_a_model_without_symbols():
    model = substitute(perceptron(), {"batch": BATCH})
    with pytest.raises(OptionError, match="none is symbolic"):
        emit(task_of(model), "c", batch=BATCH)
    with pytest.raises(OptionError, match="options of a Task"):
        emit(Functions({"predict": model}, "net"), "c", memory=1000)
