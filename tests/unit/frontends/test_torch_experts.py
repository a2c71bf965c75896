"""Grouped products are those of each row with the matrix of its group."""

from __future__ import annotations

import numpy as np
import pytest

from catgrad import Dtype, NdArrayType
from catgrad.frontends.torch.aten.experts import grouped_product
from catgrad.programs.program import evaluate
from catgrad.terms.build import build


@pytest.mark.parametrize("ends", [[2, 2, 5], [0, 3, 6], [6, 6, 6], [0, 0, 0]])
def test_rows_are_multiplied_by_the_matrix_of_their_group(ends):
    rng = np.random.default_rng(0)
    x, weights = rng.normal(size=(6, 4)), rng.normal(size=(3, 4, 2))
    weights[1] *= np.inf if ends[0] == ends[1] else 1  # the matrix of an empty group reaches no row
    types = [NdArrayType(x.shape, Dtype.float64), NdArrayType(weights.shape, Dtype.float64)]
    term = build(grouped_product, [*types, NdArrayType((3,), Dtype.int32)])
    with np.errstate(invalid="ignore"):
        [found] = evaluate(term, x, weights, np.array(ends, np.int32))
    expected = np.zeros((6, 2))
    for first, last, matrix in zip([0, *ends[:-1]], ends, weights, strict=True):
        if first < last:
            expected[first:last] = x[first:last] @ matrix
    np.testing.assert_allclose(found, expected, rtol=1e-12)
