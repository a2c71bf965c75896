"""Many steps in one launch of one block: the losses of steps one after the other, in any order of threads."""

from __future__ import annotations

import numpy as np
import pytest
from catgrad.backends.cuda.tools import simulating

from tests.laws.test_one_block import perceptron
from tests.targets import cannot, emit

MISSING = cannot("cuda")
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"target cuda: {MISSING}")
SIZES = {"few": (24, 4, 6, 3), "shared memory of the launch": (32, 64, 128, 32)}


@pytest.mark.parametrize("name", SIZES)
def test_many_steps_are_steps(name, monkeypatch):
    """With 57,344 bytes of shared memory, a launch must ask for them."""
    artifact = emit(perceptron(*SIZES[name]), "cuda", ["step", "step_many"])
    assert artifact.files["perceptron.cu"].count("<<<1, 512, ") == 1
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
