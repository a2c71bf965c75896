"""Quantised numbers: requantisation in rational arithmetic, errors of levels, straight-through gradients."""

from __future__ import annotations

from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catgrad import Dtype, NdArrayType, build, ops
from catgrad.errors import DtypeError, OptionError
from catgrad.functors import reverse
from catgrad.quantisation.affine import affine_of, fixed_point, symmetric

SUMS = st.integers(-(2**31), 2**31 - 1)
LEVELS = st.integers(-128, 127)


def types(*arrays):
    return [NdArrayType(x.shape, Dtype[x.dtype.name]) for x in arrays]


@given(st.lists(SUMS, min_size=1, max_size=5), st.integers(0, 2**31 - 1), st.integers(1, 61), LEVELS)
def test_requantisation_rounds_the_exact_product(sums, multiplier, shift, zero):
    totals = np.array(sums, np.int32)
    found = build(lambda t: ops.requantise(t, multiplier, shift, zero), types(totals))(totals)
    exact = [floor(Fraction(t) * Fraction(multiplier, 2**shift) + Fraction(1, 2)) + zero for t in sums]
    assert found.tolist() == [min(max(q, -128), 127) for q in exact]


@given(st.lists(st.floats(1e-6, 2.0), min_size=1, max_size=6), st.floats(1.0, 2.0**31))
def test_multipliers_are_near_their_factors_and_sums_have_53_bits(factors, bound):
    [multipliers], shift = fixed_point([np.array(factors)], np.array(factors) * bound)
    assert np.all(multipliers * bound < 2**53)
    assert np.all(abs(multipliers / 2.0**shift - factors) <= 2.0 ** -(shift + 1))
    is_full = max(multipliers) >= 2**30 or max(factors) * bound * 2**shift >= 2**51 or shift == 44
    assert is_full, "a greater shift would be more exact"


@given(st.floats(-1e3, 1e3), st.floats(1e-3, 1e3), st.integers(0, 2**32 - 1))
def test_levels_are_within_half_a_scale(low, width, seed):
    scale, zero = affine_of(low, low + width)
    x = np.random.default_rng(seed).uniform(min(low, 0), max(low + width, 0), 20).astype(np.float32)
    both = build(lambda x: ops.dequantise(ops.quantise(x, scale, zero), scale, zero), types(x))
    ends = abs(x) > 127 * scale  # the zero point is rounded, so an end may be half a level further out
    assert np.all(abs(both(x) - x)[~ends] <= scale * 0.5001)
    assert np.all(abs(both(x) - x) <= scale * 1.001)
    assert both(np.zeros_like(x)).tolist() == [0.0] * 20


def test_the_reference_of_numpy_is_that_of_the_operation():
    rng, (scale, zero) = np.random.default_rng(0), affine_of(-1.5, 2.5)
    x = rng.normal(size=100).astype(np.float32)
    q = build(lambda x: ops.quantise(x, scale, zero), types(x))(x)
    assert np.count_nonzero(q != affine_of(-1.5, 2.5).quantise(x)) <= 1  # ties, by the division


def test_weights_have_one_scale_for_each_channel():
    weights = np.random.default_rng(0).normal(size=(3, 4, 5)) * np.array([1, 10, 0])[:, None, None]
    levels, scales = symmetric(weights, (1, 2))
    assert scales.shape == (3, 1, 1)
    assert abs(levels).max((1, 2)).tolist() == [127, 127, 0]
    assert np.all(abs(levels * scales - weights) <= scales * 0.5001)


@pytest.mark.parametrize("greatest", [1e-36, 1e-38, 1e-44, 0.0])
def test_scales_and_their_inverses_are_numbers_of_float32(greatest):
    levels, scales = symmetric(np.float32([[greatest, -greatest / 2]]), (1,))
    narrow = scales.astype(np.float32)
    assert np.all(np.isfinite(1 / narrow)) and np.all(narrow > 0)
    assert np.all(abs(levels * scales - np.float32([[greatest, -greatest / 2]])) <= scales * 0.5001)


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("bounds", [(-128, 127), (-3, 5)])
def test_fake_quantisation_and_its_gradient_are_those_of_pytorch(axis, bounds):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    x, dy = (rng.normal(size=(4, 6)).astype(np.float32) for _ in "xy")
    scale, zero, at = np.float32(0.07), np.int32(2), ()
    if axis is not None:
        scale = rng.uniform(0.01, 0.5, x.shape[axis]).astype(np.float32)
        zero = rng.integers(bounds[0], bounds[1] + 1, x.shape[axis]).astype(np.int32)
        at = (axis,)
    given_x = torch.tensor(x, requires_grad=True)
    name = "tensor" if axis is None else "channel"
    options = (float(scale), int(zero)) if axis is None else (torch.tensor(scale), torch.tensor(zero))
    wanted = getattr(torch, f"fake_quantize_per_{name}_affine")(given_x, *options, *at, *bounds)
    wanted.backward(torch.tensor(dy))
    scale, zero = np.asarray(scale), np.asarray(zero)
    term = build(lambda x, s, z: ops.fake_quantise(x, s, z, axis, *bounds), types(x, scale, zero))
    np.testing.assert_array_equal(term(x, scale, zero), wanted.detach())
    _, dx, *_ = reverse(term).run(x, scale, zero, dy)
    np.testing.assert_array_equal(dx, given_x.grad)


def test_errors_say_what_to_do():
    image, channels = NdArrayType((2, 3)), NdArrayType((3,))
    with pytest.raises(OptionError, match="which `axis` names, but one is f32.3., and axis is None"):
        build(lambda x, s: ops.quantise(x, s), [image, channels])
    with pytest.raises(DtypeError, match="sums must be int32 or int64"):
        build(lambda x: ops.requantise(x, 2**30, 31), [image])
    with pytest.raises(OptionError, match="shift must lie between 1 and 62"):
        build(lambda x: ops.requantise(ops.cast(x, Dtype.int32), 2**30, 0), [image])
    with pytest.raises(OptionError, match="low ≤ high"):
        build(lambda x: ops.fake_quantise(x, 0.1, low=3, high=2), [image])
