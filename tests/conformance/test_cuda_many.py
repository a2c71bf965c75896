"""Many steps in one launch of one block: the losses of steps one after the other, in any order of threads."""

from __future__ import annotations

import re

import numpy as np
import pytest
from catgrad.backends.cuda.tools import simulating

from catgrad.loops.machine import STATIC_SHARED_BYTES
from tests.laws.test_one_block import perceptron
from tests.targets import cannot, emit

MISSING = cannot("cuda")
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"target cuda: {MISSING}")
SIZES = {"few": (24, 4, 6, 3), "shared memory of the launch": (256, 4, 24, 3)}


def test_steps_with_too_many_products_for_one_block_are_launches():
    text = emit(perceptron(32, 64, 128, 32), "cuda", ["step", "step_many"]).files["perceptron.cu"]
    assert "<<<1, 512, " not in text


@pytest.mark.parametrize("name", SIZES)
def test_many_steps_are_steps(name, monkeypatch):
    """A launch must ask for more than 48 KiB of shared memory."""
    artifact = emit(perceptron(*SIZES[name]), "cuda", ["step", "step_many"])
    [bytes] = re.findall(r"<<<1, 512, (\d+), stream>>>", artifact.files["perceptron.cu"])
    assert (int(bytes) > STATIC_SHARED_BYTES) == (name != "few")
    model, rng = artifact.load(), np.random.default_rng(0)
    batch, first, _, last = SIZES[name]
    x, y = (rng.normal(size=(5, batch, width)).astype(np.float32) for width in (first, last))
    one = model().learner(0)
    wanted = [one.step(*each) for each in zip(x, y, strict=True)]
    found = []
    for order in ("forward", "backward", "random:1") if simulating() else ("forward", "forward"):
        monkeypatch.setenv("CUDA_SIMULATOR_ORDER", order)
        many = model().learner(0)
        assert many.step_many(x[:0], y[:0]).shape == (0,)
        found.append([*many.step_many(x[:2], y[:2]), *many.step_many(x[2:], y[2:])])
        np.testing.assert_allclose(found[-1], wanted, rtol=1e-5)
        for key, array in many.parameters.items():
            np.testing.assert_allclose(array, one.parameters[key], rtol=1e-4, atol=1e-6)
    assert found[1:] == [found[0]] * (len(found) - 1)
