"""Convolution, max pooling and masks of the target numpy equal their definitions, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catgrad import Dim, Dtype, NdArrayType, ops
from catgrad.functors.reverse import Reversed
from catgrad.ops.conv import Conv, ConvTranspose, ConvWeight
from catgrad.ops.pool import MaxPool
from catgrad.programs.program import Program, lower
from catgrad.targets import get_backend
from catgrad.terms.build import build
from catgrad.testing import run_on

NUMPY = get_backend("numpy")


def agree(op, *arrays):
    """Compare the target with the reference of an operation."""
    types = [NdArrayType(array.shape, Dtype[array.dtype.name]) for array in arrays]
    [found] = run_on(NUMPY, build(lambda *x: op(*x), types), *arrays)
    expected = op.ref(*arrays)
    np.testing.assert_array_equal(found, expected[0] if isinstance(expected, tuple) else expected)


def whole(rng, *shape):
    return rng.integers(-3, 4, shape).astype(np.float32)


@st.composite
def convolutions(draw):
    """Draw a convolution in up to three axes, its image and its weights: (op, N, C, image, O, sizes)."""
    axes = range(draw(st.integers(0, 3)))
    strides, dilations = (tuple(draw(st.integers(1, 3)) for _ in axes) for _ in range(2))
    sizes, padding = (
        tuple(draw(st.integers(1, 3)) for _ in axes),
        tuple(draw(st.integers(0, 3)) for _ in axes),
    )
    spans = [(k - 1) * d + 1 for k, d in zip(sizes, dilations, strict=True)]
    image = tuple(max(1, n - 2 * p) + draw(st.integers(0, 4)) for n, p in zip(spans, padding, strict=True))
    groups = draw(st.integers(1, 3))
    channels, outputs = (groups * draw(st.integers(1, 3)) for _ in range(2))
    op = Conv(strides, padding, dilations, groups)
    return op, draw(st.integers(0, 2)), channels, image, outputs, sizes


@given(convolutions(), st.integers(0, 99))
def test_a_convolution_and_its_gradients_equal_sums_over_windows(case, seed):
    conv, batch, channels, image, outputs, sizes = case
    rng, fields = np.random.default_rng(seed), (conv.strides, conv.padding, conv.dilations, conv.groups)
    x, w = whole(rng, batch, channels, *image), whole(rng, outputs, channels // conv.groups, *sizes)
    dy = whole(rng, batch, outputs, *conv.places(image, sizes))
    rest = tuple(n - m for n, m in zip(image, conv.shortest(dy.shape[2:], sizes), strict=True))
    agree(conv, x, w)
    agree(ConvTranspose(*fields, rest), dy, w)
    agree(ConvWeight(*fields, sizes), x, dy)


@given(convolutions(), st.integers(0, 99))
def test_the_greatest_of_windows_passes_its_gradient_to_the_first(case, seed):
    conv, batch, channels, image, _, sizes = case
    padding = tuple(min(p, k // 2) for p, k in zip(conv.padding, sizes, strict=True))
    spans = [(k - 1) * d + 1 for k, d in zip(sizes, conv.dilations, strict=True)]
    image = tuple(max(n, span) for n, span in zip(image, spans, strict=True))
    pool, rng = MaxPool(sizes, conv.strides, padding, conv.dilations), np.random.default_rng(seed)
    x = rng.choice(np.array([-np.inf, -0.0, 0, 1, 2, np.nan], np.float32), (batch, channels, *image))
    agree(pool, x)
    [y] = pool.outputs(NdArrayType(x.shape))
    agree(Reversed(pool, 1), x, whole(rng, *y.shape))


@pytest.mark.parametrize("dtype", [dtype for dtype in Dtype if dtype.is_floating], ids=lambda d: d.name)
def test_a_mask_keeps_bits_and_replaces_infinity_and_nan(dtype):
    x = np.array([1.5, -0.0, np.inf, np.nan, -2], dtype.numpy)
    keep = np.array([[True], [False]])
    types = [NdArrayType((2, 5), Dtype.bool), NdArrayType((2, 5), dtype)]

    def both(condition, x):
        zero = ops.zeros_like(x)
        return ops.select(condition, x, zero), ops.select(condition, zero, x)

    term = build(both, types)
    bits, zero = f"u{x.itemsize}", np.zeros((), dtype.numpy)
    arrays = np.broadcast_to(keep, (2, 5)).copy(), np.broadcast_to(x, (2, 5)).copy()
    kept, dropped = run_on(NUMPY, term, *arrays)
    np.testing.assert_array_equal(kept.view(bits), np.where(keep, x, zero).view(bits))
    np.testing.assert_array_equal(dropped.view(bits), np.where(keep, zero, x).view(bits))


def test_windows_are_copied_once_and_never_left_to_einsum():
    image, weights = NdArrayType((Dim("n"), 4, 6, 6)), NdArrayType((8, 2, 3, 3))

    def loss(x, w):
        y = ops.conv(x, w, padding=1, groups=2)
        return y, *Conv((1, 1), (1, 1), (1, 1), 2).rev(x, w, y)

    artifact = NUMPY.emit(Program("case", (lower(build(loss, [image, weights]), "f", doc=""),)))
    body = artifact.source.split("def f(")[1].split("def converted")[0]
    assert body.count("lowered(x") == 1
    assert "einsum" not in artifact.source


def test_a_convolution_stands_beside_a_loop():
    image, weights = NdArrayType((1, 2, 4, 4)), NdArrayType((2, 2, 3, 3))

    def both(x, w):
        y = ops.conv(x, w, padding=1)
        return ops.repeat(lambda total: total + y, 2, y)

    rng = np.random.default_rng(0)
    x, w = whole(rng, *image.shape), whole(rng, *weights.shape)
    [found] = run_on(NUMPY, build(both, [image, weights]), x, w)
    np.testing.assert_array_equal(found, 3 * Conv((1, 1), (1, 1), (1, 1), 1).ref(x, w))
