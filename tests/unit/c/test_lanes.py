"""Outer-loop vectorisation of small networks: results do not depend on it, for any number of rows."""

from __future__ import annotations

import numpy as np
import pytest

from catgrad import NdArrayType, build, ops
from catgrad.learn.layers import dense, sequential, sigmoid, tanh
from catgrad.learn.losses import mse
from catgrad.learn.optimisers import sgd
from catgrad.learn.task import Task
from catgrad.programs.program import evaluate
from catgrad.targets import get_backend
from catgrad.testing import draw_arrays, run_on
from tests.covering import some
from tests.targets import emit

pytestmark = pytest.mark.skipif(bool(get_backend("c").missing()), reason="there is no C compiler")


@pytest.mark.parametrize("rows", some([15, 16, 17, 48, 150], [17]))
def test_a_vectorised_step_of_a_small_network(rows):
    batch, x, h, y = (NdArrayType((n,)) for n in (rows, 4, 20, 3))
    model = sequential(dense(batch, x, h, tanh, name="first"), dense(batch, h, y, sigmoid, name="second"))
    task = Task(model, sgd(0.5), mse)
    rng = np.random.default_rng(rows)
    data = rng.normal(size=(rows, 4)).astype(np.float32), rng.random(size=(rows, 3), dtype=np.float32)
    learners = [emit(task, target).load()().learner(seed=3) for target in ("numpy", "c")]
    losses = [[float(learner.step(*data)) for _ in range(4)] for learner in learners]
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
    for name, array in learners[0].parameters.items():
        np.testing.assert_allclose(learners[1].parameters[name], array, rtol=1e-4, atol=1e-6)


def test_rows_along_either_axis_of_a_square():
    x = NdArrayType((16, 16))

    def both(x):
        rows = ops.sum(x * x, 1)
        columns = ops.sum(ops.exp(x), 0)
        return rows * columns, ops.sum(rows * ops.sum(ops.permute(x, 1, 0), 1), 0)

    term, arrays = build(both, [x]), draw_arrays([x])
    for found, wanted in zip(run_on(get_backend("c"), term, *arrays), evaluate(term, *arrays), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4)
