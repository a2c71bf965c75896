"""Arguments and results of emitted C are in row-major order, however products are computed."""

from __future__ import annotations

import numpy as np
import pytest

from catgrad import NdArrayType, build, ops
from catgrad.programs.program import evaluate
from catgrad.targets import get_backend
from catgrad.testing import draw_arrays, run_on

pytestmark = pytest.mark.skipif(bool(get_backend("c").missing()), reason="there is no C compiler")


def test_products_that_are_results_and_one_that_is_read_permuted():
    def every(*factors):
        x, *ws, y, z = factors
        product = y @ z
        return *(x @ ops.permute(w, 1, 0) for w in ws), product, ops.permute(product, 1, 0, 2) * 2

    shapes = [(8, 256), (17, 256), (64, 256), (257, 256), (4, 64, 32), (4, 32, 64)]
    types = [NdArrayType(shape) for shape in shapes]
    term, arrays = build(every, types), draw_arrays(types)
    for found, wanted in zip(run_on(get_backend("c"), term, *arrays), evaluate(term, *arrays), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_carries_are_read_before_they_are_overwritten():
    h = NdArrayType((100,))
    term = build(lambda h: ops.repeat(lambda h: ops.flip(h) + h * 0.5, 3, h), [h])
    arrays = draw_arrays([h])
    [found], [wanted] = run_on(get_backend("c"), term, *arrays), evaluate(term, *arrays)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
