"""Emitted WebGPU in a page of Chromium, on its software adapter: it trains as NumPy does."""

from __future__ import annotations

import json

import numpy as np
import pytest

from examples import iris
from tests.targets import emit

from .editor import ask, missing

pytestmark = [pytest.mark.browser, pytest.mark.skipif(bool(missing()), reason=f"a browser: {missing()}")]
STEPS = 10

TRAIN = """(async (features, species) => {
    const { createModel } = await import("/hidden.mjs");
    const model = await createModel({ seed: 0 });
    const x = Float32Array.from(features), y = Float32Array.from(species), losses = [];
    for (let i = 0; i < %d; i++) losses.push(await model.step(150, x, y));
    const refused = await model.step(151, x, y).catch((error) => error.message);
    const again = await createModel({ weights: await model.save() });
    const arrays = Object.entries(again.parameters).map(([name, array]) => [name, [...array]]);
    return { losses, refused, parameters: Object.fromEntries(arrays) };
})(%s, %s)"""


def test_a_page_trains_as_numpy_does():
    x, y = iris.samples().shuffled()
    script = TRAIN % (STEPS, *(json.dumps(array.ravel().tolist()) for array in (x, y)))
    answer = ask("module.cjs", 120, files=emit(iris.hidden(), "webgpu").files, script=script)
    assert answer["errors"] == []
    learner = emit(iris.hidden(), "numpy").load()().learner()
    expected = [float(learner.step(x, y)) for _ in range(STEPS)]
    np.testing.assert_allclose(answer["result"]["losses"], expected, rtol=0, atol=1e-5)
    assert "x must have 604 elements, but it has 600" in answer["result"]["refused"]
    assert answer["result"]["parameters"].keys() == learner.parameters.keys()
    for name, array in answer["result"]["parameters"].items():
        np.testing.assert_allclose(array, learner.parameters[name].ravel(), rtol=0, atol=1e-5)
