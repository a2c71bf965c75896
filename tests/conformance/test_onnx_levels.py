"""Levels of 8 bits in models of ONNX: the numbers of ONNX Runtime, and exact sums of products."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from catgrad import Functions
from catgrad.errors import UnsupportedOp
from catgrad.frontends.onnx import from_onnx
from catgrad.learn.functions import opened_term
from catgrad.targets import get_backend
from catgrad.testing import run_on
from tests.onnx_models import model, run
from tests.targets import emit, on

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")

RNG = np.random.default_rng(0)
F, I32, U8, I8 = np.float32, np.int32, np.uint8, np.int8
X = np.concatenate([RNG.normal(size=(36, 4)), 0.125 * np.arange(-72, 72).reshape(36, 4)]).astype(F)
X[0] = 1e30, -1e30, 0, -0.0
SCALES = np.array([0.25, 0.3, 0.017, 2], F)


def outputs(made, target, *inputs):
    """Return the outputs of an imported model on a target."""
    opened = opened_term(from_onnx(made).model)
    arrays = [slot.initial.array for slot in (*opened.buffers, *opened.parameters)]
    return [np.asarray(y) for y in run_on(get_backend(target), opened.term, *arrays, *inputs)]


GRIDS = {
    "one": (F(0.25), 3),
    "channels": (SCALES, [3, 0, 7, 1]),
    "none": (F(0.3), None),
}


@on("numpy", "c")
@pytest.mark.parametrize(("grid", "dtype"), [*product(("one", "channels"), (U8, I8)), ("none", U8)])
def test_levels_and_numbers_are_those_of_onnx_runtime(target, grid, dtype):
    scale, zero = GRIDS[grid]
    arrays = {"s": scale} | ({} if zero is None else {"z": np.array(zero, dtype)})
    given = " ".join(("s", "z")[: len(arrays)])
    nodes = [("QuantizeLinear", f"x {given}", "q", {"axis": -1}), ("DequantizeLinear", f"q {given}", "y")]
    made = model([("x", F, X.shape)], nodes, [("q", dtype, X.shape), ("y", F, X.shape)], arrays)
    for found, expected in zip(outputs(made, target, X), run(made, X), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def levels(dtype, *shape):
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max + 1, shape).astype(dtype)


ZEROS = [((), ()), ((1,), (1,)), ((1,), (33,)), ((), (33,)), ((17,), (33,))]


@on("numpy", "c")
@pytest.mark.parametrize(("a_type", "b_type"), [*product([U8, I8], repeat=2)])
@pytest.mark.parametrize("zeros", ZEROS)
def test_products_of_levels_are_exact(target, a_type, b_type, zeros):
    a, b = levels(a_type, 17, 130), levels(b_type, 130, 33)
    z, w = (levels(dtype, *shape) for dtype, shape in zip((a_type, b_type), zeros, strict=True))
    arrays = {"z": z, "w": w}
    nodes = [("MatMulInteger", "a b z w", "y")]
    inputs, made = [("a", a_type, a.shape), ("b", b_type, b.shape)], [("y", I32, (17, 33))]
    [found] = outputs(model(inputs, nodes, made, arrays), target, a, b)
    wide = a.astype(I32) - z.astype(I32).reshape(-1, 1), b.astype(I32) - w.astype(I32)
    np.testing.assert_array_equal(found, wide[0] @ wide[1])


def test_products_of_uint8_are_those_of_int8_in_c():
    """Levels are moved by 128, so that targets need no products of both types."""
    shapes = [("a", U8, (64, 512)), ("b", U8, (512, 64))]
    arrays = {"z": np.array(3, U8), "w": np.array(200, U8)}
    made = model(shapes, [("MatMulInteger", "a b z w", "y")], [("y", I32, (64, 64))], arrays)
    task = Functions({"predict": from_onnx(made).model})
    assert "gemm_i8(64, 64, 512," in emit(task, "c", single_file=True).source


@on("numpy", "c")
@pytest.mark.parametrize("dtype", [U8, I8])
def test_convolutions_of_levels_are_those_of_onnx_runtime(target, dtype):
    """An image is padded with its zero point."""
    x, w = levels(U8, 2, 3, 9, 8), levels(dtype, 4, 3, 3, 2)
    nodes = [("ConvInteger", "x w z v", "y", {"pads": [1, 0, 1, 1], "strides": [2, 1]})]
    arrays = {"w": w, "z": np.array(77, U8), "v": np.array(0 if dtype is I8 else 5, dtype)}
    made = model([("x", U8, x.shape)], nodes, [("y", I32, (2, 4, 5, 8))], arrays)
    np.testing.assert_array_equal(outputs(made, target, x)[0], run(made, x)[0])


def test_layers_of_levels_are_those_of_onnx_runtime():
    """Rounded results differ by one level at most, where a number is within rounding errors of a tie."""
    x, w, v = levels(U8, 5, 3, 8, 8), levels(I8, 6, 3, 3, 3), levels(I8, 96, 7)
    arrays = {
        "w": w, "v": v, "zx": np.array(120, U8), "zw": np.zeros(6, I8), "zv": np.array(0, I8),
        "sx": F(0.02), "sw": RNG.uniform(0.01, 0.02, 6).astype(F), "sv": F(0.01), "sy": F(0.1), "st": F(3),
        "zy": np.array(100, U8), "b": RNG.integers(-999, 999, 6).astype(I32), "shape": np.array([5, 96]),
    }  # fmt: skip
    nodes = [
        ("QLinearConv", "x sx zx w sw zw sy zy b", "h", {"pads": [1, 1, 1, 1]}),
        ("MaxPool", "h", "p", {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("Reshape", "p shape", "r"),
        ("QLinearMatMul", "r sy zy v sv zv st zy", "y"),
    ]
    made = model([("x", U8, x.shape)], nodes, [("p", U8, (5, 6, 4, 4)), ("y", U8, (5, 7))], arrays)
    for found, expected in zip(outputs(made, "numpy", x), run(made, x), strict=True):
        difference = np.abs(found.astype(int) - expected)
        assert len(np.unique(expected)) > 10 and difference.max() <= 1 and difference.mean() < 0.03


def test_levels_of_dynamic_grids_are_those_of_onnx_runtime():
    arrays = {"b": levels(I8, 4, 6), "w": np.array(0, I8)}
    nodes = [("DynamicQuantizeLinear", "x", "q s z"), ("MatMulInteger", "q b z w", "y")]
    made = model([("x", F, (71, 4))], nodes, [("s", F, ()), ("y", I32, (71, 6))], arrays)
    for found, expected in zip(outputs(made, "numpy", X[1:]), run(made, X[1:]), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_scales_are_no_parameters():
    arrays = {"s": F(0.1), "w": levels(I8, 40, 40), "b": RNG.normal(size=(40, 40)).astype(F)}
    nodes = [
        ("QuantizeLinear", "x s", "q"),
        ("DequantizeLinear", "q s", "r"),
        ("DequantizeLinear", "w s", "v"),
        ("MatMul", "r v", "p"),
        ("MatMul", "p b", "y"),
    ]
    made = model([("x", F, (2, 40))], nodes, [("y", F, (2, 40))], arrays)
    assert list(from_onnx(made).parameters) == ["b"]


def test_scales_of_blocks_are_refused():
    nodes = [("QuantizeLinear", "x s", "y", {"block_size": 2, "axis": 1})]
    made = model([("x", F, X.shape)], nodes, [("y", U8, X.shape)], {"s": np.ones((72, 2), F)})
    with pytest.raises(UnsupportedOp, match="there must be one scale, or one for each channel"):
        from_onnx(made)
