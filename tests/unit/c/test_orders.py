"""Arguments and results of emitted C are in row-major order, however products are computed."""

from __future__ import annotations

import numpy as np
import pytest

from catgrad import NdArrayType, build, ops
from catgrad.programs.program import evaluate
from catgrad.targets import get_backend
from catgrad.testing import draw_arrays, run_on

pytestmark = pytest.mark.skipif(bool(get_backend("c").missing()), reason="there is no C compiler")


@pytest.mark.parametrize("n", [17, 64, 257])
def test_a_product_that_is_a_result(n):
    x, w = NdArrayType((8, 256)), NdArrayType((n, 256))
    term = build(lambda x, w: x @ ops.permute(w, 1, 0), [x, w])
    arrays = draw_arrays([x, w])
    [found], [wanted] = run_on(get_backend("c"), term, *arrays), evaluate(term, *arrays)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_a_product_that_is_a_result_and_is_read_permuted():
    x, y = NdArrayType((4, 64, 32)), NdArrayType((4, 32, 64))

    def both(x, y):
        z = x @ y
        return z, ops.permute(z, 1, 0, 2) * 2

    term = build(both, [x, y])
    arrays = draw_arrays([x, y])
    for found, wanted in zip(run_on(get_backend("c"), term, *arrays), evaluate(term, *arrays), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_carries_are_read_before_they_are_overwritten():
    h = NdArrayType((100,))
    term = build(lambda h: ops.repeat(lambda h: ops.flip(h) + h * 0.5, 3, h), [h])
    arrays = draw_arrays([h])
    [found], [wanted] = run_on(get_backend("c"), term, *arrays), evaluate(term, *arrays)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
