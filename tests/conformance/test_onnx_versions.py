"""Operators of older sets of ONNX, and places where its standard is read in two ways, beside ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

from catgrad.errors import UnsupportedOp
from catgrad.frontends.onnx import from_onnx
from tests.onnx_models import model, run

pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")

F = np.float32
X = np.random.default_rng(0).normal(size=(1, 2, 3, 5)).astype(F)


def check(operator, x, *constants, opset, **attributes):
    """Compare an operator of a set with ONNX Runtime."""
    names = "bcde"[: len(constants)]
    made = model(
        [("x", x.dtype, x.shape)],
        [(operator, " ".join(["x", *("" if c is None else n for n, c in zip(names, constants, strict=True))]),
          "y", attributes)],
        [("y", x.dtype, x.ndim)],
        {n: c for n, c in zip(names, constants, strict=True) if c is not None},
        opset,
    )  # fmt: skip
    np.testing.assert_allclose(from_onnx(made).model(x), run(made, x)[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scales", [(1.7, 1.3), (1.5, 3), (2, 2)])
def test_resizing_before_set_11_reads_the_place_i_over_scale(mode, scales):
    factors = F([1, 1, *scales])
    check("Upsample", X, opset=7, mode=mode, scales=factors.tolist())
    check("Upsample", X, factors, opset=9, mode=mode)
    check("Resize", X, factors, opset=10, mode=mode)


def test_shrinking_before_set_11_reads_the_place_i_over_scale():
    check("Resize", X, F([1, 1, 0.5, 0.37]), opset=10, mode="linear")


@pytest.mark.parametrize("operator", ["Hardmax", "Softmax", "LogSoftmax"])
@pytest.mark.parametrize("attributes", [{}, {"axis": 0}, {"axis": 2}, {"axis": 3}])
def test_classes_before_set_13_are_all_axes_from_the_given_one_on(operator, attributes):
    check(operator, X, opset=11, **attributes)


def test_classes_since_set_13_are_one_axis():
    check("Hardmax", X, opset=13, axis=1)


@pytest.mark.parametrize(("start", "end", "step"), [(-9, -99, -1), (-9, -99, -2), (-9, 99, 1), (9, -99, -3)])
def test_a_slice_begins_within_the_axis(start, end, step):
    check("Slice", X[0, 0], *(np.int64([n]) for n in (start, end, 1, step)), opset=13)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_the_one_place_of_an_axis_in_the_mode_of_pytorch_is_the_first(mode):
    half = {"coordinate_transformation_mode": "pytorch_half_pixel", "mode": mode}
    check("Resize", X, None, None, np.int64([1, 2, 1, 1]), opset=18, **half)
    check("Resize", X[:, :, :2], None, F([1, 1, 0.6, 1]), opset=18, **half)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_factors_between_corners_give_a_whole_number_of_elements(mode):
    corners = {"coordinate_transformation_mode": "align_corners", "mode": mode}
    check("Resize", X, None, F([1, 1, 2, 1.2]), opset=18, **corners)
    with pytest.raises(UnsupportedOp, match="whole number of elements, but its factor gives it 4.5; give"):
        check("Resize", X, None, F([1, 1, 1.5, 2]), opset=18, **corners)


def test_an_axis_is_not_resized_to_nothing():
    with pytest.raises(UnsupportedOp, match="a resized axis must get an element, but axis 2 gets none"):
        check("Resize", X, None, F([1, 1, 0.3, 1]), opset=18, mode="linear")
