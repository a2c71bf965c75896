"""The functions of emitted C's runtime: accuracy in units of the last place, and exact conversions."""

import ctypes

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.c_runtime import GCC, MAPS, pointer, sigmoid

pytestmark = pytest.mark.skipif(GCC is None, reason="there is no gcc")


def call(library, name, x, y=None, to=None):
    z = np.empty(x.shape, to or x.dtype)
    y = x if y is None else y
    getattr(library, f"call_{name}")(ctypes.c_ssize_t(x.size), pointer(x), pointer(y), pointer(z))
    return z


def ulps(y, exact):
    """Compute the error in units in the last place; 0 where both are the same special value."""
    with np.errstate(over="ignore"):
        rounded = exact.astype(np.float32)
    with np.errstate(invalid="ignore"):
        error = np.abs(y - exact) / np.maximum(np.spacing(np.abs(rounded)).astype(float), 2.0**-149)
    return np.where((y == rounded) | (np.isnan(y) & np.isnan(rounded)), 0, error)


def inputs():
    """Draw floats of all sizes, and many where the function is neither flat nor linear."""
    rng = np.random.default_rng(0)
    sizes = np.arange(0, 2**32, 9973, dtype=np.uint64).astype(np.uint32).view(np.float32)
    near = [rng.uniform(-r, r, 100_000) for r in (1, 4, 20, 110, 65536)]
    return np.concatenate([sizes, *(n.astype(np.float32) for n in near)])


@pytest.mark.parametrize("name", MAPS)
def test_functions_are_within_2_units_of_the_last_place(library, name):
    x = inputs()
    with np.errstate(all="ignore"):
        exact = MAPS[name](x.astype(float))
    y = call(library, f"{name}_f32", x)
    error = ulps(y, exact)
    assert error.max() <= 2, f"{name}({x[error.argmax()]!r}) is off by {error.max()}"


SPECIAL = np.array(
    [0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 2**-149, -(2**-149), 2**-126, -(2**-126), 3.4e38, -3.4e38],
    np.float32,
)


@pytest.mark.parametrize("name", MAPS)
def test_functions_of_special_values(library, name):
    with np.errstate(all="ignore"):
        exact = MAPS[name](SPECIAL.astype(float))
        rounded = exact.astype(np.float32)
    y = call(library, f"{name}_f32", SPECIAL)
    assert np.array_equal(np.isnan(y), np.isnan(rounded))
    assert ulps(y, exact).max() <= 2
    known = ~np.isnan(y)
    assert np.array_equal(np.signbit(y[known]), np.signbit(rounded[known]))


def bases_and_exponents():
    """Draw pairs of floats of all sizes, and many whose power is neither 0 nor infinite."""
    rng, n = np.random.default_rng(0), 200_000
    bits = rng.integers(0, 2**32, (3, n), dtype=np.uint64).astype(np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        finite = np.float32(rng.uniform(-155, 155, n) / np.log2(np.abs(bits[2]).astype(float)))
    near_1 = np.float32(1 + rng.uniform(-1e-3, 1e-3, n)), np.float32(rng.uniform(-1e5, 1e5, n))
    usual = np.float32(np.exp(rng.uniform(-9, 9, n))), np.float32(rng.uniform(-9, 9, n))
    whole = np.float32(rng.uniform(-30, 30, n)), np.float32(rng.integers(-25, 26, n))
    pairs = [(bits[0], bits[1]), (np.abs(bits[2]), finite), near_1, usual, whole]
    return [np.concatenate(side) for side in zip(*pairs, strict=True)]


def test_powers_are_within_2_units_of_the_last_place(library):
    x, y = bases_and_exponents()
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(float), y.astype(float))
    error = ulps(call(library, "pow_f32", x, y), exact)
    at = error.argmax()
    assert error[at] <= 2, f"pow({x[at]!r}, {y[at]!r}) is off by {error[at]}"


def test_powers_of_special_values(library):
    more = [
        2,
        -2,
        3,
        -3,
        0.5,
        -0.5,
        1.5,
        2**24 - 1,
        1 - 2**24,
        2**24,
        -(2**25),
        8388607.5,
        1 + 2**-23,
        1 - 2**-24,
    ]
    every = np.concatenate([SPECIAL, np.float32(more)])
    x, y = (np.ascontiguousarray(side.ravel()) for side in np.meshgrid(every, every))
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(float), y.astype(float))
        rounded = exact.astype(np.float32)
    z = call(library, "pow_f32", x, y)
    assert np.array_equal(np.isnan(z), np.isnan(rounded))
    known = ~np.isnan(z)
    assert np.array_equal(np.signbit(z[known]), np.signbit(rounded[known]))
    assert ulps(z, exact).max() <= 2


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_versions_near_0_have_the_same_bits(library, name):
    x = np.concatenate([inputs(), SPECIAL, np.float32([65536, -65536])])
    x = np.ascontiguousarray(x[~(np.abs(x) > 65536)])
    y, expected = (call(library, f"{each}{name}_f32", x) for each in ("near_", ""))
    np.testing.assert_array_equal(y.view(np.uint32) * ~np.isnan(y), expected.view(np.uint32) * ~np.isnan(x))


@settings(max_examples=50, deadline=None)
@given(x=st.floats(width=32))
def test_tanh_and_erf_are_odd_and_end_at_1(library, x):
    pair = np.array([x, -x], np.float32)
    for name, end in (("tanh", 10), ("erf", 4)):
        y, opposite = call(library, f"{name}_f32", pair)
        assert y == -opposite or np.isnan(x)
        assert not abs(x) >= end or abs(y) == 1


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_a_constant_does_not_change_a_bit(library, name, dtype):
    x = np.concatenate([SPECIAL, inputs()[:1000]]).astype({"f32": np.float32, "f64": np.float64}[dtype])
    found = call(library, f"{name}_beside_0_{dtype}", x)
    wanted = call(library, f"{name}_{dtype}", x, np.zeros_like(x))
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted) | (np.isnan(x) & np.signbit(x)))


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_maximum_minimum_and_sign_keep_nan(library, dtype):
    values = SPECIAL.astype({"f32": np.float32, "f64": np.float64}[dtype])
    x, y = (np.ascontiguousarray(v.ravel()) for v in np.meshgrid(values, values))
    np.testing.assert_array_equal(call(library, f"maximum_{dtype}", x, y), np.maximum(x, y))
    np.testing.assert_array_equal(call(library, f"minimum_{dtype}", x, y), np.minimum(x, y))
    np.testing.assert_array_equal(call(library, f"sign_{dtype}", x), np.sign(x))


def test_sigmoid_of_doubles(library):
    x = np.linspace(-745, 745, 10001)
    np.testing.assert_allclose(call(library, "sigmoid_f64", x), sigmoid(x), rtol=1e-12)


def test_float16_is_converted_as_in_numpy(library):
    halves = np.arange(2**16, dtype=np.uint16)
    floats = call(library, "f16_to_f32", halves, to=np.float32)
    np.testing.assert_array_equal(floats, halves.view(np.float16).astype(np.float32))
    with np.errstate(all="ignore"):
        x = np.concatenate([inputs(), floats, (floats[:-1] + floats[1:]) / 2])
        expected = x.astype(np.float16)
    np.testing.assert_array_equal(call(library, "f32_to_f16", x, to=np.uint16).view(np.float16), expected)


def test_bfloat16_is_converted_as_in_ml_dtypes(library):
    bfloat16 = pytest.importorskip(
        "ml_dtypes", reason="ml_dtypes, the other side of the comparison, is not installed"
    ).bfloat16
    halves = np.arange(2**16, dtype=np.uint16)
    floats = call(library, "bf16_to_f32", halves, to=np.float32)
    np.testing.assert_array_equal(floats, halves.view(bfloat16).astype(np.float32))
    ties = (halves.astype(np.uint32) << 16 | 0x8000).view(np.float32)
    x = np.concatenate([inputs(), floats, ties])
    with np.errstate(all="ignore"):
        expected = x.astype(bfloat16).astype(np.float32)
    back = call(library, "f32_to_bf16", x, to=np.uint16).view(bfloat16).astype(np.float32)
    np.testing.assert_array_equal(back, expected)
