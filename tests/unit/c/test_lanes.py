"""Outer-loop vectorisation of small networks: results do not depend on it, for any number of rows."""

from __future__ import annotations

import numpy as np
import pytest

from catgrad import Dim, NdArrayType, build, ops
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


@pytest.mark.parametrize("row", [32, 256])
def test_sums_of_any_number_of_rows(row):
    x = NdArrayType((Dim("batch"), 3, row))
    term = build(lambda x: (ops.sum(x, (0, 2)), ops.sum(x * x, (0, 2))), [x])
    for batch in (1, 7, 300):
        array = np.random.default_rng(batch).standard_normal((batch, 3, row), np.float32)
        found = run_on(get_backend("c"), term, array)
        for sums, terms in zip(found, (array, array * array), strict=True):
            np.testing.assert_allclose(sums, terms.sum((0, 2), np.float64), rtol=1e-5, atol=1e-4)
