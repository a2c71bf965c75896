"""Convolutions and pooling against PyTorch, at shapes and options that Hypothesis draws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume
from hypothesis import strategies as st

from catgrad import Dtype, NdArrayType, build, ops
from catgrad.errors import OptionError, ShapeError
from catgrad.functors import reverse
from catgrad.ops.conv import ConvWeight
from catgrad.programs.program import evaluate
from catgrad.targets import get_backend
from catgrad.testing import run_on
from tests.conformance.twins import assert_same, normal
from tests.targets import drawn, on_targets, on_targets_with

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")
F = torch.nn.functional


def axes(spatial, low, high):
    return st.tuples(*[st.integers(low, high)] * spatial)


@st.composite
def convolutions(draw):
    """Draw matching shapes of an image and of weights, with all options."""
    spatial = draw(st.integers(1, 3))
    stride, dilation = draw(axes(spatial, 1, 3)), draw(axes(spatial, 1, 2))
    padding, kernel = draw(axes(spatial, 0, 2)), draw(axes(spatial, 1, 3))
    groups, per_group, outputs = (draw(st.integers(1, 3)) for _ in range(3))
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    extra = draw(axes(spatial, 0, 3))
    size = [max(s - 2 * p, 1) + e for s, p, e in zip(spans, padding, extra, strict=True)]
    batch = draw(st.integers(1, 2))
    x, w = (batch, groups * per_group, *size), (groups * outputs, per_group, *kernel)
    return x, w, dict(stride=stride, padding=padding, dilation=dilation, groups=groups)


@on_targets
@drawn(case=convolutions())
def test_conv(target, case):
    x, w, options = case
    theirs = getattr(F, f"conv{len(x) - 2}d")
    assert_same(
        target, lambda x, w: ops.conv(x, w, **options), lambda x, w: theirs(x, w, **options), *normal(x, w)
    )


@st.composite
def transposed_convolutions(draw):
    spatial = draw(st.integers(1, 3))
    stride, dilation = draw(axes(spatial, 1, 3)), draw(axes(spatial, 1, 2))
    kernel = draw(axes(spatial, 1, 3))
    padding = tuple(draw(st.integers(0, ((k - 1) * d) // 2)) for k, d in zip(kernel, dilation, strict=True))
    output_padding = tuple(draw(st.integers(0, s - 1)) for s in stride)
    groups, per_group, outputs = (draw(st.integers(1, 3)) for _ in range(3))
    x = (draw(st.integers(1, 2)), groups * outputs, *draw(axes(spatial, 1, 3)))
    w = (groups * outputs, per_group, *kernel)
    options = dict(stride=stride, padding=padding, dilation=dilation, groups=groups)
    return x, w, options | dict(output_padding=output_padding)


@on_targets
@drawn(case=transposed_convolutions())
def test_conv_transpose(target, case):
    x, w, options = case
    theirs = getattr(F, f"conv_transpose{len(x) - 2}d")
    assert_same(
        target,
        lambda x, w: ops.conv_transpose(x, w, **options),
        lambda x, w: theirs(x, w, **options),
        *normal(x, w),
    )


@on_targets
@drawn(case=convolutions())
def test_the_weights_of_a_convolution_are_differentiable_twice(target, case):
    """The reverse of ConvWeight, by the gradient of a gradient."""
    x, w, options = case
    theirs = getattr(F, f"conv{len(x) - 2}d")

    def gradient(x, w):
        y = theirs(x, w, **options)
        return torch.autograd.grad(y, w, torch.tanh(y), create_graph=True)[0]

    def ours(x, w):
        y = ops.conv(x, w, **options)
        attributes = [options[k] for k in ("stride", "padding", "dilation", "groups")]
        return ConvWeight(*attributes, w.shape[2:])(x, ops.tanh(y))

    assert_same(target, ours, gradient, *normal(x, w), tolerance=1e-8)


@st.composite
def pools(draw):
    spatial = draw(st.integers(1, 3))
    size, stride, dilation = draw(axes(spatial, 1, 4)), draw(axes(spatial, 1, 3)), draw(axes(spatial, 1, 2))
    padding = tuple(draw(st.integers(0, k // 2)) for k in size)
    spans = [(k - 1) * d + 1 for k, d in zip(size, dilation, strict=True)]
    extra = draw(axes(spatial, 0, 3))
    shape = [max(s - 2 * p, 1) + e for s, p, e in zip(spans, padding, extra, strict=True)]
    return (2, draw(st.integers(1, 2)), *shape), size, stride, padding, dilation


@on_targets
@drawn(case=pools(), ties=st.booleans())
def test_max_pool(target, case, ties):
    """The first of equal elements in a window gets the gradient."""
    shape, *options = case
    (x,) = normal(shape)
    theirs = getattr(F, f"max_pool{len(shape) - 2}d")
    size, stride, padding, dilation = options
    # The gradient of a window that has only padding is written outside of the array by PyTorch 2.13.
    assume(theirs(torch.tensor(x), size, stride, padding, dilation).isfinite().all())
    assert_same(
        target,
        lambda x: ops.max_pool(x, *options),
        lambda x: theirs(x, size, stride, padding, dilation),
        np.round(x) if ties else x,
    )


@on_targets
def test_max_pool_of_padding_alone(target):
    """The maximum of no element is -∞, and no element has its gradient."""
    term = reverse(
        build(lambda x: ops.max_pool(x, (2,), (1,), (1,), (2,)), [NdArrayType((2, 1, 1), Dtype.float64)])
    )
    x, dy = normal((2, 1, 1), (2, 1, 1))
    for y, dx in (evaluate(term, x, dy), run_on(get_backend(target), term, x, dy)):
        np.testing.assert_array_equal(y, np.full((2, 1, 1), -np.inf))
        np.testing.assert_array_equal(dx, np.zeros((2, 1, 1)))


@on_targets
@drawn(case=pools(), count_include_pad=st.booleans())
def test_avg_pool(target, case, count_include_pad):
    shape, size, stride, padding, _ = case
    # PyTorch's avg_pool3d wants windows no longer than the image without its padding.
    assume(len(shape) < 5 or all(n >= k for n, k in zip(shape[2:], size, strict=True)))
    theirs = getattr(F, f"avg_pool{len(shape) - 2}d")
    assert_same(
        target,
        lambda x: ops.avg_pool(x, size, stride, padding, count_include_pad),
        lambda x: theirs(x, size, stride, padding, count_include_pad=count_include_pad),
        *normal(shape),
    )


@pytest.mark.covering
@on_targets
@pytest.mark.parametrize("kind", ["avg", "max"])
@drawn(data=st.data())
def test_adaptive_pool(target, kind, data):
    spatial = data.draw(st.integers(1, 2))
    size, bins = data.draw(axes(spatial, 1, 9)), data.draw(axes(spatial, 1, 7))
    (x,) = normal((2, 2, *size))
    theirs = getattr(F, f"adaptive_{kind}_pool{spatial}d")
    ours = getattr(ops, f"adaptive_{kind}_pool")
    assert_same(target, lambda x: ours(x, bins), lambda x: theirs(x, bins), np.round(x))


@on_targets_with("nan")
def test_pooling_keeps_infinities_and_nan_where_they_are(target):
    x = np.zeros((1, 1, 7))
    x[0, 0, [1, 4]] = np.inf, np.nan
    for ours, theirs in (
        (lambda x: ops.max_pool(x, 2), lambda x: F.max_pool1d(x, 2)),
        (lambda x: ops.avg_pool(x, 2), lambda x: F.avg_pool1d(x, 2)),
        (lambda x: ops.adaptive_avg_pool(x, 3), lambda x: F.adaptive_avg_pool1d(x, 3)),
        (lambda x: ops.adaptive_max_pool(x, 3), lambda x: F.adaptive_max_pool1d(x, 3)),
    ):
        assert_same(target, ours, theirs, x)


@on_targets
def test_padding_is_never_the_maximum(target):
    assert_same(
        target,
        lambda x: ops.max_pool(x, 3, 1, 1),
        lambda x: F.max_pool2d(x, 3, 1, 1),
        -1 - np.ones((1, 1, 4, 4)),
    )


@on_targets
@drawn(data=st.data())
def test_upsample_nearest(target, data):
    spatial = data.draw(st.integers(1, 3))
    size, factor = data.draw(axes(spatial, 1, 4)), data.draw(axes(spatial, 1, 3))
    assert_same(
        target,
        lambda x: ops.upsample_nearest(x, factor),
        lambda x: F.interpolate(x, scale_factor=tuple(map(float, factor)), mode="nearest"),
        *normal((2, 2, *size)),
    )


@on_targets
def test_global_avg_pool(target):
    assert_same(target, ops.global_avg_pool, lambda x: x.mean((2, 3)), *normal((2, 3, 4, 5)))


SPATIAL = {
    "conv": lambda x, w: ops.conv(x, w, padding=1),
    "conv_transpose": lambda x, w: ops.conv_transpose(x, ops.permute(w, 1, 0, 2, 3), groups=3),
    "max_pool": lambda x, w: ops.max_pool(x, 2, 1, 1),
    "avg_pool": lambda x, w: ops.avg_pool(x, 2, 1, 1, False),
    "adaptive": lambda x, w: ops.adaptive_max_pool(x, (3, 2)),
    "upsample": lambda x, w: ops.upsample_nearest(x, 2),
}


@on_targets
@pytest.mark.parametrize("name", SPATIAL)
def test_an_empty_batch(name, target):
    term = reverse(build(SPATIAL[name], [NdArrayType((0, 3, 4, 4)), NdArrayType((6, 3, 2, 2))]))
    arrays = [np.zeros(t.shape, np.float32) for t in term.source.table]
    assert [a.shape for a in evaluate(term, *arrays)] == [t.shape for t in term.target.table]
    for a, b in zip(run_on(get_backend(target), term, *arrays), evaluate(term, *arrays), strict=True):
        np.testing.assert_array_equal(a, b)


x = NdArrayType((2, 4, 5))
REFUSED = {
    "groups that do not divide the channels": (lambda x: ops.conv(x, x, groups=3), ShapeError),
    "an output padding of a stride": (lambda x: ops.conv_transpose(x, x, 2, output_padding=2), OptionError),
    "a negative padding": (lambda x: ops.conv(x, x, padding=-1), OptionError),
    "more padding than half a window": (lambda x: ops.max_pool(x, 3, padding=2), OptionError),
    "a size for an axis that is not there": (lambda x: ops.max_pool(x, (2, 2)), OptionError),
    "no bins": (lambda x: ops.adaptive_avg_pool(x, 0), ShapeError),
    "a factor of 0": (lambda x: ops.upsample_nearest(x, 0), OptionError),
    "more padding than output": (lambda x: ops.conv_transpose(x, x, padding=9), ShapeError),
}


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_geometries_are_refused(name):
    function, error = REFUSED[name]
    with pytest.raises(error):
        build(function, [x])
