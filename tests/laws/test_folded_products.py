"""A transposed convolution of each channel alone adds products where they lie: no array of them exists."""

from __future__ import annotations

import numpy as np
import pytest

from catgrad import Dim, NdArrayType, build, ops
from catgrad.loops.ir.nest import statements
from catgrad.loops.ir.steps import kernels
from catgrad.loops.reference import run
from catgrad.programs.program import evaluate
from tests.kernels import SCALARS, VECTORS, compiled


def transposed(channels: int, groups: int, batch=2, stride: int = 2):
    """Return a transposed convolution, and small whole numbers as its inputs."""
    x, w = (NdArrayType(shape) for shape in ((batch, channels, 5, 5), (channels, 4 // groups, 3, 3)))
    term = build(lambda x, w: ops.conv_transpose(x, w, stride, 1, groups=groups), [x, w])
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-4, 5, shape).astype(np.float32) for shape in ((2, *x.shape[1:]), w.shape)]
    return term, arrays


@pytest.mark.parametrize("machine", [VECTORS, SCALARS], ids=["vectors", "scalars"])
@pytest.mark.parametrize("batch", [2, Dim("batch")], ids=str)
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_results_are_those_of_the_definition(groups, batch, machine):
    term, arrays = transposed(4, groups, batch)
    lowered = compiled(term, machine)
    for shuffled in (False, True):
        [found] = run(lowered, *arrays, shuffled=shuffled)
        np.testing.assert_array_equal(found, evaluate(term, *arrays)[0])


def stores_windows(lowered) -> bool:
    """Tell whether products are stored in an array with the axes of a window before they are added up."""
    written = [s.buffer for kernel in kernels(lowered.steps) for s in statements(kernel.body)]
    return any(buffer.type.shape.count(3) == 2 for buffer in written)


def test_products_of_one_channel_are_not_stored():
    assert stores_windows(compiled(transposed(4, 2)[0]))  # each is a sum of two
    assert not stores_windows(compiled(transposed(4, 4)[0]))
