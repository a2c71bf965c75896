"""Loop-invariant code motion: what products in a loop need in another order is copied once, before it."""

from __future__ import annotations

import numpy as np
import pytest

from catgrad import Dim, NdArrayType, build, ops
from catgrad.functors import reverse
from catgrad.loops.ir.nest import MatMul, statements
from catgrad.loops.ir.steps import For, kernels
from catgrad.loops.reference import run
from catgrad.programs.program import evaluate
from catgrad.programs.program import lower as straight
from catgrad.testing import draw_arrays
from tests.kernels import compiled

BATCH, WIDTH = 16, 32


def recurrence(h, xs, w):
    return ops.scan(lambda c, x: (ops.tanh(c @ w + x), ()), h, xs)[0]


def twice(h, xs, w):
    """A loop in a loop."""
    return ops.scan(lambda c, x: (ops.repeat(lambda a: ops.tanh(a @ w + x), 3, c), ()), h, xs)[0]


def types(length):
    return [NdArrayType(shape) for shape in ((BATCH, WIDTH), (length, BATCH, WIDTH), (WIDTH, WIDTH))]


def strides_in_loops(steps):
    """List the strides along columns of the right operands of products in loops."""
    inside = [step for step in steps if isinstance(step, For)]
    every = [s for loop in inside for kernel in kernels([loop]) for s in statements(kernel.body)]
    products = [s for s in every if isinstance(s, MatMul)]
    return [s.right.buffer.stride(s.right.indices, s.columns[-1]) for s in products]


@pytest.mark.covering
@pytest.mark.parametrize("function", [recurrence, twice])
@pytest.mark.parametrize("length", [0, 1, 2, 9])
@pytest.mark.parametrize("symbolic", [False, True])
def test_copies_before_a_loop_preserve_the_meaning(function, length, symbolic):
    term = reverse(build(function, types(Dim("length") if symbolic else length)))
    arrays = draw_arrays((*types(length), NdArrayType((BATCH, WIDTH))), (-0.3, 0.3))
    found, wanted = run(compiled(term), *arrays), evaluate(straight(term), *arrays)
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("function", [recurrence, twice])
def test_products_in_a_long_loop_read_rows(function):
    """The reverse reads the weight transposed: by one copy for all turns, rather than one in each."""
    strides = strides_in_loops(compiled(reverse(build(function, types(64)))).steps)
    assert len(strides) >= 2
    assert set(strides) == {1}


def test_a_short_loop_reads_the_weight_where_it_is():
    strides = strides_in_loops(compiled(reverse(build(recurrence, types(2)))).steps)
    assert WIDTH in strides
