"""Stacks of equal layers on ggml: graphs built in loops have the nodes of layers written out, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from catgrad import Dim, NdArrayType, Task, layers, losses, optimisers
from catgrad.learn.adapters import adapters_only
from tests.laws.test_lists_of_layers import char_gpt, characters, two_kinds
from tests.targets import cannot, emit

pytestmark = pytest.mark.skipif(bool(cannot("ggml")), reason=f"target ggml: {cannot('ggml')}")

LOOP = "for (int layer = 0"
FUNCTIONS = ("predict", "step", "grads", "update")


def check(task, *batch, functions=FUNCTIONS, **options):
    """Compare what is trained in loops and written out."""
    artifacts = [emit(task, "ggml", roll=roll, functions=functions, **options) for roll in (True, False)]
    assert LOOP in artifacts[0].source
    assert LOOP not in artifacts[1].source
    learners = [artifact.load()().learner(seed=7) for artifact in artifacts]
    equal(*(learner.parameters for learner in learners))
    if "grads" in functions:
        (loss, gradients), (expected_loss, expected) = (learner.grads(*batch) for learner in learners)
        assert loss == expected_loss
        equal(gradients, expected)
        for learner in learners:
            learner.update(expected)
    for _ in range(2):
        rolled, written_out = (learner.step(*batch) for learner in learners)
        assert rolled == written_out
    for table in ("parameters", "buffers", "state"):
        equal(*(getattr(learner, table) for learner in learners))
    np.testing.assert_array_equal(*(learner.predict(batch[0]) for learner in learners))


def equal(found, expected):
    """Compare arrays by name."""
    assert list(found) == list(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


def normal(*shape):
    return [np.random.default_rng(k).normal(size=shape).astype(np.float32) for k in range(2)]


@pytest.mark.long
@pytest.mark.parametrize("kernels", [True, False])
def test_the_character_gpt(kernels):
    check(char_gpt(3), *characters(), kernels=kernels)


@pytest.mark.long
def test_stacks_of_two_kinds():
    check(two_kinds(3), *normal(3, 8))


def test_frozen_matrices_of_layers_are_quantised():
    n, width, hidden = NdArrayType((Dim("n"),)), NdArrayType((64,)), NdArrayType((96,))
    blocks = (
        layers.residual(
            layers.layer_norm(n, width, name=f"h.{k}.norm")
            >> layers.lora(n, width, hidden, 4, 8.0, f"h.{k}.up")
            >> layers.tanh(n + hidden)
            >> layers.lora(n, hidden, width, 4, 8.0, f"h.{k}.down")
        )
        for k in range(3)
    )
    task = Task(layers.sequential(*blocks), adapters_only(optimisers.adamw(0.01)), losses.mse, "adapted")
    check(task, *normal(5, 64), functions=("predict", "step"), weights="q8_0")


@pytest.mark.long
def test_layers_with_loops_of_their_own_are_one_graph():
    """A stack of LSTMs is computed repeatedly on copies of their parameters."""
    places, width = NdArrayType((3, 5)), NdArrayType((8,))
    blocks = (
        layers.residual(
            layers.layer_norm(places, width, name=f"h.{k}.norm")
            >> layers.lstm(places, width, width, f"h.{k}.lstm")
        )
        for k in range(3)
    )
    task = Task(layers.sequential(*blocks), optimisers.adamw(0.01), losses.mse, "recurrent")
    check(task, *normal(3, 5, 8))
