"""Stacks of equal layers as loops: targets compute the bits of layers written out, at several depths."""

from __future__ import annotations

import numpy as np
import pytest

from tests.laws.test_rolled_stacks import MODELS, task_of
from tests.targets import emit, on

TARGETS = ("numpy", "torch", "jax", "c", "cuda", "javascript", "webgpu", "ggml")


@pytest.mark.covering
@pytest.mark.parametrize("count", [3, 6])
@pytest.mark.parametrize("model", ["dense", "resnet"])
@on(*TARGETS, long=("ggml",))
def test_loops_compute_the_bits_of_layers_written_out(target, model, count):
    """A loss may be a sum in another order, and where compilers contract, an update too.

    On GPUs, threads share a sum as its kernel is scheduled, and kernels differ where layers are fused.
    """
    task, functions = task_of(MODELS[model](count), "sgd"), ("predict", "step", "grads")
    written_out, rolled = (
        emit(task, target, roll=roll, functions=functions).load()().learner(seed=3) for roll in (False, True)
    )
    x, y = np.random.default_rng(0).normal(size=(2, *task.inputs[0].shape)).astype(np.float32)
    (loss, found), (expected_loss, expected) = (each.grads(x, y) for each in (rolled, written_out))
    assert list(found) == list(expected)
    most = 1e-6 if target in ("cuda", "webgpu") else 0.0
    for name, gradient in expected.items():
        np.testing.assert_allclose(found[name], gradient, rtol=most, atol=most, err_msg=name)
    np.testing.assert_allclose(rolled.predict(x), written_out.predict(x), rtol=most, atol=most)
    losses = [[each.step(x, y) for _ in range(3)] for each in (rolled, written_out)]
    np.testing.assert_allclose(*losses, rtol=1e-6)
    np.testing.assert_allclose(loss, expected_loss, rtol=1e-6)
