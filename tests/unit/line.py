"""A linear model with a buffer and momentum, emitted as C; arguments for it, and comparisons of learners."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from catgrad import Dim, Dtype, NdArrayType, Task, build, mse, ops, sgd
from catgrad.artifact import Artifact
from catgrad.dims import Size
from catgrad.initialisers import Uniform
from catgrad.learn.layers.parts import buffer, parameter, update
from catgrad.learn.schedules import Rate
from catgrad.terms.op import scope
from tests.targets import emit

W, B, COUNT = NdArrayType((4, 3)), NdArrayType((3,)), NdArrayType((), Dtype.int64)

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(6, 4)).astype(np.float32), RNG.normal(size=(6, 3)).astype(np.float32)
P = [RNG.normal(size=(4, 3)).astype(np.float32), np.zeros(3, np.float32)]


def line(batch: Size = Dim("batch"), name: str = "line", rate: Rate = 0.1) -> Task:
    def forward(x):
        weight, shift = parameter("weight", W, Uniform(-0.5, 0.5)), parameter("bias", B)
        update("seen", buffer("seen", COUNT) + 1)
        return x @ weight + ops.broadcast(shift, (batch, 3))

    with scope("dense"):
        model = build(forward, [NdArrayType((batch, 4))])
    return Task(model, sgd(rate, momentum=0.9), mse, name)


def emitted(task: Task | None = None, **options: Any) -> Artifact:
    return emit(task or line(), "c", **options)


def learners_of(models):
    """Return a learner of each of two models, with the same parameters."""
    ours, theirs = (model().learner(0) for model in models)
    ours.parameters = theirs.parameters
    return ours, theirs


def assert_same(found, expected):
    """Assert that arrays are close, and have the same dtypes."""
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
        assert np.asarray(a).dtype == np.asarray(b).dtype


def assert_learners_agree(ours, theirs, steps):
    """Compare all functions of two learners."""
    for _ in range(steps):
        assert_same([ours.step(X, Y)], [theirs.step(X, Y)])
    gradients = [learner.grads(X, Y) for learner in (ours, theirs)]
    assert_same(*([loss, *by_name.values()] for loss, by_name in gradients))
    for learner, (_, by_name) in zip((ours, theirs), gradients, strict=True):
        learner.update(by_name)
    losses = ours.step_many(np.stack([X, X]), np.stack([Y, Y]))
    assert_same(losses, [theirs.step(X, Y) for _ in range(2)])
    assert_same([ours.predict(X), ours.loss(X, Y)], [theirs.predict(X), theirs.loss(X, Y)])


def assert_same_errors(learners, arrays):
    """Assert that two learners refuse arrays with the same error, also the second time."""
    errors = []
    for learner in learners:
        for _ in range(2):
            with pytest.raises((TypeError, ValueError)) as error:
                learner.step(*arrays)
        errors.append(error.value)
    assert type(errors[0]) is type(errors[1])
    assert str(errors[0]) == str(errors[1])
