"""Levels of 8 bits, the numbers that they stand for, and products of levels.

Source: https://onnx.ai/onnx/operators (QuantizeLinear, MatMulInteger, QLinearMatMul)
"""

from __future__ import annotations

from typing import Any

from catgrad import ops
from catgrad.frontends.onnx.operators.images import conv
from catgrad.frontends.onnx.operators.operands import along, dtype_of
from catgrad.frontends.onnx.operators.products import matmul
from catgrad.frontends.onnx.registry import onnx, require
from catgrad.ops.shape import Shape
from catgrad.terms.structural import Constant
from catgrad.terms.var import Var
from catgrad.types import Dtype, NdArrayType

VERSIONS = (10, 13, 19, 21, 23, 24, 25, 28)
BYTES = (Dtype.int8, Dtype.uint8)
CENTRE = 128
"""The level of uint8 that is moved to 0."""


@onnx("QuantizeLinear", since=VERSIONS)
def quantise(
    x: Var, scale: Var, zero: Var | None = None, *, axis: int = 1, block_size: int = 0,
    output_dtype: int = 0, saturate: int = 1, precision: int = 0,
) -> Var:  # fmt: skip
    """Levels: y = clamp(round(x / s) + z), rounding ties to even."""
    _check(scale, block_size, precision)
    dtype = zero.dtype if zero is not None else dtype_of(output_dtype or 2)
    x = ops.cast(x, Dtype.float32)
    return _rounded(x / _spread(scale, x.shape, axis), zero, dtype, axis)


@onnx("DequantizeLinear", since=VERSIONS)
def dequantise(
    x: Var, scale: Var, zero: Var | None = None, *, axis: int = 1, block_size: int = 0, output_dtype: int = 0
) -> Var:
    """The numbers of levels: y = (x - z) · s."""
    _check(scale, block_size, output_dtype)
    y = ops.cast(_difference(x, zero, axis), Dtype.float32)
    return y * _spread(scale, x.shape, axis)


@onnx("MatMulInteger", since=10)
def matmul_integer(a: Var, b: Var, a_zero: Var | None = None, b_zero: Var | None = None) -> Var:
    """Matrix product of levels without their zero points, in int32, as numpy.matmul.

    It is (A - z)(B - w) = A B - (A 1) w - z (1 B - 1 w), where A and B are int8, for which targets have
    products; levels of uint8 and their zero points are moved by 128.
    """
    require(a.type.rank > 1 and b.type.rank > 1, "factors must be matrices", f"one is {a.type} or {b.type}")
    rows, columns = a.type.rank - 2, b.type.rank - 1
    (a, a_zero), (b, b_zero) = _signed(a, a_zero), _signed(b, b_zero)
    y = matmul(a, b)
    if b_zero is not None:
        y = y - _total(a, rows + 1, y.shape) * _spread(b_zero, y.shape, -1)
        b = b - _spread(b_zero, b.shape, columns)
    if a_zero is not None:
        y = y - _total(b, columns - 1, y.shape) * _spread(a_zero, y.shape, -2)
    return y


@onnx("QLinearMatMul", since=(10, 21))
def linear_matmul(
    a: Var, a_scale: Var, a_zero: Var, b: Var, b_scale: Var, b_zero: Var, y_scale: Var, y_zero: Var
) -> Var:
    """Matrix product of levels, rounded to levels: clamp(round(A B · (s₁ s₂ / s₃)) + z₃)."""
    total = matmul_integer(a, b, a_zero, b_zero)
    for each in (a_scale, a_zero, y_scale, y_zero):
        require(each.type.size == 1, "the left operand and the result must have one scale", f"one is {each}")
    return _rescaled(total, (a_scale, b_scale, y_scale), y_zero, total.type.rank - 1)


@onnx("ConvInteger", since=10)
def conv_integer(
    x: Var, w: Var, x_zero: Var | None = None, w_zero: Var | None = None, **geometry: Any
) -> Var:
    """Convolution of levels without their zero points, in int32."""
    return conv(_difference(x, x_zero, 1), _difference(w, w_zero, 0), **geometry)


@onnx("QLinearConv", since=10)
def linear_conv(
    x: Var, x_scale: Var, x_zero: Var, w: Var, w_scale: Var, w_zero: Var, y_scale: Var, y_zero: Var,
    bias: Var | None = None, **geometry: Any,
) -> Var:  # fmt: skip
    """Convolution of levels, rounded to levels."""
    total = conv(_difference(x, x_zero, 1), _difference(w, w_zero, 0), bias, **geometry)
    return _rescaled(total, (x_scale, w_scale, y_scale), y_zero, 1)


def _rescaled(total: Var, scales: tuple[Var, Var, Var], zero: Var, axis: int) -> Var:
    """Round sums in int32 to levels, by the scales of both factors and of the result."""
    for each in scales:
        _check(each)
    left, right, result = (_spread(each, total.shape, axis) for each in scales)
    return _rounded(ops.cast(total, Dtype.float32) * (left * right / result), zero, zero.dtype, axis)


def _rounded(x: Var, zero: Var | None, dtype: Dtype, axis: int) -> Var:
    """Return clamp(round(x) + z) in a dtype of 8 bits."""
    require(dtype in BYTES, "levels must be int8 or uint8", f"they are {dtype.name}")
    y = ops.round(x)
    if zero is not None:
        y = y + _spread(ops.cast(zero, Dtype.float32), x.shape, axis)
    return ops.cast(ops.clamp(y, float(dtype.limits.min), float(dtype.limits.max)), dtype)


def _difference(x: Var, zero: Var | None, axis: int) -> Var:
    """Return levels without their zero point, in int32."""
    require(
        x.dtype in (*BYTES, Dtype.int32), "levels must be int8, uint8 or int32", f"they are {x.dtype.name}"
    )
    x = ops.cast(x, Dtype.int32)
    return x if zero is None else x - _spread(ops.cast(zero, Dtype.int32), x.shape, axis)


def _total(x: Var, axis: int, shape: Shape) -> Var:
    """Sum up along one axis, and broadcast to a shape."""
    return ops.broadcast_to(ops.expand_dims(ops.sum(x, (axis,)), axis), shape)


def _signed(x: Var, zero: Var | None) -> tuple[Var, Var | None]:
    """Return levels of int8, as int32, and their zero point, if it is not 0."""
    wide, zero = _difference(x, None, 0), None if zero is None else ops.cast(zero, Dtype.int32)
    if x.dtype is not Dtype.uint8:
        return wide, zero
    moved = ops.cast(ops.cast(wide - CENTRE, Dtype.int8), Dtype.int32)
    return moved, Constant(NdArrayType((), Dtype.int32), -CENTRE)() if zero is None else zero - CENTRE


def _spread(x: Var, shape: Shape, axis: int) -> Var:
    """Return a scale or zero point, of which there is one, or one for each index of an axis, in a shape."""
    if x.type.size == 1:
        return ops.broadcast(ops.reshape(x), shape)
    require(x.type.rank == 1, "scales and zero points must be numbers, or have one axis", f"one is {x.type}")
    return along(x, shape, axis % len(shape))


def _check(scale: Var, block_size: int = 0, dtype: int = 1) -> None:
    """Raise UnsupportedOp unless scales are float32, of whole arrays or channels, and so are numbers."""
    require(scale.dtype is Dtype.float32, "scales must be float32", f"one is {scale.type}")
    require(dtype in (0, 1), "numbers of levels must be float32", f"their type is {dtype}")
    require(block_size == 0, "there must be one scale, or one for each channel", "each block has one")
