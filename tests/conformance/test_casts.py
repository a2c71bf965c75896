"""Casts between all dtypes, against NumPy and PyTorch, with numbers at the edges."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from catgrad import Dtype, NdArrayType, build, ops
from catgrad.functors import reverse
from catgrad.ops.cast import Cast
from catgrad.ops.random import KEY
from catgrad.programs.passes import optimise
from catgrad.programs.program import evaluate, lower
from catgrad.targets import get_backend
from catgrad.terms.structural import Constant
from catgrad.terms.term import singleton
from catgrad.testing import run_on
from tests.targets import cannot, drawn, need, on_all_targets, on_targets

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")
AWKWARD = {
    Dtype.bool: [False, True],
    Dtype.int32: [0, 1, -1, 2**24 + 1, 2**31 - 1, -(2**31)],
    Dtype.int64: [0, 1, -1, 2**24 + 1, 2**31, 2**32 - 1, 2**53 + 1, -(2**53) - 1, 2**62],
    Dtype.uint32: [0, 1, 2**24 + 1, 2**31, 2**32 - 1],
    Dtype.int8: [0, 1, -1, 127, -128],
    Dtype.uint8: [0, 1, 127, 128, 255],
    Dtype.float32: [0.0, -0.0, 0.5, 255.9, -129.5, 16777216.0, 3e9, 1e38, -1e-45, np.inf, -np.inf, np.nan],
    Dtype.float64: [0.0, -0.0, 0.1, 2.5, -2.5, 2**53 - 1.0, 3e9, 1e300, -5e-324, np.inf, -np.inf, np.nan],
}
"""Casts of 16-bit dtypes are in test_16_bits."""
BEFORE, AFTER = pytest.mark.parametrize("before", AWKWARD), pytest.mark.parametrize("after", AWKWARD)


def cast(array, dtype):
    """Cast as NumPy, but saturate for integer dtypes, with 0 for NaN."""
    if array.dtype.kind != "f" or dtype.is_floating or dtype is Dtype.bool:
        with np.errstate(all="ignore"):
            return np.asarray(array.astype(dtype.numpy))
    limits = np.iinfo(dtype.numpy)
    return np.array([nearest(x, limits) for x in array.ravel().tolist()], dtype.numpy).reshape(array.shape)


def nearest(x, limits):
    if math.isfinite(x):
        return min(max(int(x), limits.min), limits.max)
    return {math.inf: limits.max, -math.inf: limits.min}.get(x, 0)


def within(array, dtype):
    """Mark the numbers whose cast PyTorch defines: all but those outside the range of an integer dtype."""
    if dtype.is_floating or dtype is Dtype.bool:
        return np.ones(array.shape, bool)
    with np.errstate(invalid="ignore"):
        whole = np.trunc(array.astype(np.float64))
    limits = np.iinfo(dtype.numpy)
    return np.isfinite(whole) & (whole >= limits.min) & (whole < limits.max + 1)


def representable(array, target):
    """Mark the integers that a target represents, where it has those of 53 bits only."""
    wide = array.dtype != np.int64 or not cannot(target, "64 bits")
    return np.ones(array.shape, bool) if wide else (array <= 2**53) & (array >= -(2**53))


def equal(x, y):
    """Compare bit for bit, except for the bits of a NaN."""
    same = np.array_equal(x, y, equal_nan=y.dtype.kind == "f") and x.dtype == y.dtype
    return same and (y.dtype.kind != "f" or np.array_equal(np.signbit(x), np.signbit(y)))


@pytest.mark.covering(2)
@on_targets
@BEFORE
@AFTER
def test_every_pair_agrees_with_numpy_and_torch(before, after, target):
    if before is Dtype.int64 and after.is_integer:
        need(target, "64 bits")
    x = np.array(AWKWARD[before]).astype(before.numpy)
    x = x[representable(x, target)]
    wanted, inside = cast(x, after), within(x, after)
    assert equal(torch.tensor(x[inside]).to(getattr(torch, after.name)).numpy(), wanted[inside])
    term = singleton(Cast(before, after), NdArrayType(x.shape, before))
    assert equal(evaluate(term, x)[0], wanted)
    assert equal(run_on(get_backend(target), term, x)[0], wanted)


@on_targets
@drawn(40, before=st.sampled_from(list(AWKWARD)), after=st.sampled_from(list(AWKWARD)), data=st.data())
def test_any_shape_and_any_number(target, before, after, data):
    """Draw scalars, empty axes, NaN, infinities and the least numbers too."""
    shape = data.draw(array_shapes(min_dims=0, min_side=0, max_dims=3, max_side=3))
    x = data.draw(arrays(before.numpy, shape))
    x = np.where(representable(x, target), x, 0).astype(x.dtype)
    wanted = cast(x, after)
    term = singleton(Cast(before, after), NdArrayType(shape, before))
    assert equal(run_on(get_backend(target), term, x)[0], wanted)


@pytest.mark.covering(2)
@on_targets
@BEFORE
@AFTER
def test_gradients_are_cast_back_between_floats_and_0_elsewhere(before, after, target):
    x = np.ones(3, before.numpy)
    term = reverse(singleton(Cast(before, after), NdArrayType((3,), before)))
    dy = [np.array([1, 2, 3], after.numpy)] if after.is_numeric else []
    wanted = [1, 2, 3] if before.is_floating and after.is_floating else [0, 0, 0]
    for found in (evaluate(term, x, *dy), run_on(get_backend(target), term, x, *dy)):
        gradients = found[1:]
        assert len(gradients) == before.is_numeric
        assert all(g.tolist() == wanted and g.dtype == before.numpy for g in gradients)
    if before.is_floating and after.is_floating:
        tensor = torch.tensor(x, requires_grad=True)
        tensor.to(getattr(torch, after.name)).backward(torch.tensor(dy[0]))
        assert tensor.grad.tolist() == wanted


@BEFORE
@AFTER
def test_folding_casts_as_the_targets_do(before, after):
    """Constant folding computes the reference."""
    for value in AWKWARD[before]:
        with np.errstate(all="ignore"):
            x = np.array([value]).astype(before.numpy)
        term = build(lambda x=x: ops.cast(Constant(NdArrayType((2,), before), x.item())(), after), [])
        wanted = np.full(2, cast(x, after).item(), after.numpy)
        assert len(optimise(lower(term)).body) == 1
        for target in ("numpy", "torch"):
            assert equal(run_on(get_backend(target), term)[0], wanted)


@on_targets
def test_bits_are_integers_of_32_bits_until_they_are_cast(target):
    """The highest bit is not a sign."""

    def halves(seed, counter):
        bits = ops.random_bits((64,), 3, seed, counter)
        return bits, *(ops.cast(bits, dtype) for dtype in (Dtype.int64, Dtype.float64, Dtype.float32))

    keys = np.int64(1), np.int64(2)
    bits, *others = run_on(get_backend(target), build(halves, [KEY, KEY]), *keys)
    assert bits.dtype == np.uint32 and bits.max() >= 2**31
    for other in others:
        assert np.array_equal(other, bits.astype(other.dtype)) and other.min() >= 0


@on_all_targets
def test_uniform_numbers_have_the_same_bits_on_every_target(target):
    """Uniform numbers are multiples of a power of two, which the dtype represents exactly."""
    dtypes = [Dtype.float32, Dtype.float64]
    dtypes += [] if cannot(target, "16 bits") else [Dtype.float16, Dtype.bfloat16]

    def uniform(seed, counter):
        return [ops.random_uniform((5, 13), 3, seed, counter, dtype) for dtype in dtypes]

    term, keys = build(uniform, [KEY, KEY]), (np.int64(-1), np.int64(2**33))
    for found, wanted in zip(run_on(get_backend(target), term, *keys), evaluate(term, *keys), strict=True):
        assert found.dtype == wanted.dtype and np.array_equal(found, wanted)
