"""On GPUs, what a forward saves in 16 bits is read by its reverse instead of functions of it in 32 bits."""

from __future__ import annotations

import numpy as np
import pytest

from catgrad import Dtype, NdArrayType, build, ops
from catgrad.functors import reverse
from catgrad.loops.ir.nest import statements
from catgrad.loops.ir.scalar import Space
from catgrad.loops.ir.steps import kernels
from catgrad.ops.cast import cast
from catgrad.programs.program import evaluate
from tests.gpu import run_in_teams
from tests.laws.test_gpu_schedules import scheduled

ROWS, WIDTH, HIDDEN = 40, 16, 24


def term(activation):
    """Return an activation between products of 16-bit numbers, and its reverse."""
    shapes = (ROWS, WIDTH), (WIDTH, HIDDEN), (HIDDEN, WIDTH)

    def net(x, w, v):
        return cast(activation(cast(x @ w, Dtype.float32)), Dtype.bfloat16) @ v

    return reverse(build(net, [NdArrayType(shape, Dtype.bfloat16) for shape in shapes]))


def stored(lowered):
    """Return the dtypes of temporary arrays of hidden features."""
    written = {b for kernel in kernels(lowered.steps) for s in statements(kernel.body) for b, _ in s.writes}
    return {b.type.dtype for b in written if b.space is Space.WORKSPACE and b.type.shape == (ROWS, HIDDEN)}


@pytest.mark.parametrize("activation", [ops.gelu_tanh, ops.silu, ops.sigmoid], ids=repr)
def test_no_function_of_16_bits_is_stored_in_32(activation):
    whole = term(activation)
    lowered = scheduled(whole, "default")
    assert stored(lowered) == {Dtype.bfloat16}
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=type.shape).astype(Dtype.bfloat16.numpy) for type in whole.source]
    for found, wanted in zip(run_in_teams(lowered, *arrays), evaluate(whole, *arrays), strict=True):
        near = np.asarray(wanted, np.float32)
        np.testing.assert_allclose(found.astype(np.float32), near, rtol=2**-6, atol=2**-6 * abs(near).max())
