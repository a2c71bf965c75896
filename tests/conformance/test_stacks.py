"""Stacks of equal layers as loops: targets compute the bits of layers written out, at several depths."""

from __future__ import annotations

import numpy as np
import pytest

from tests.laws.test_rolled_stacks import MODELS, task_of
from tests.targets import cannot, emit

TARGETS = ("numpy", "torch", "jax", "c", "cuda", "javascript", "webgpu", "ggml")


@pytest.mark.parametrize("count", [3, 6])
@pytest.mark.parametrize("model", ["resnet", "dense"])
@pytest.mark.parametrize("target", TARGETS)
def test_steps_in_loops_have_the_bits_of_layers_written_out(target, model, count):
    if reason := cannot(target):
        pytest.skip(f"target {target}: {reason}")
    task = task_of(MODELS[model](count), "sgd")
    written_out, rolled = (emit(task, target, roll=roll).load()().learner(seed=3) for roll in (False, True))
    x, y = np.random.default_rng(0).normal(size=(2, *task.inputs[0].shape)).astype(np.float32)
    for _ in range(3):
        assert rolled.step(x, y) == written_out.step(x, y)
    for table in ("parameters", "buffers"):
        found, expected = getattr(rolled, table), getattr(written_out, table)
        assert list(found) == list(expected)
        for name in expected:
            np.testing.assert_array_equal(found[name], expected[name], err_msg=name)
    np.testing.assert_array_equal(rolled.predict(x), written_out.predict(x))
