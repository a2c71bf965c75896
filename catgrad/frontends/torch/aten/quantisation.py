"""Fake quantisation: rounding to a grid of whole numbers, with the gradient of the identity inside.

Programs of torchao's `convert_pt2e` have its halves as operations: levels of 8 bits, and their numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from catgrad import ops
from catgrad.frontends.torch.aten.operands import TorchDtype
from catgrad.frontends.torch.registry import aten, register, require
from catgrad.ops.quantised import along, clamped, nearest_levels
from catgrad.terms.var import Var
from catgrad.types import Dtype


@aten("fake_quantize_per_tensor_affine.default", "fake_quantize_per_tensor_affine.tensor_qparams")
def per_tensor(x: Var, scale: Var | float, zero_point: Var | int, quant_min: int, quant_max: int) -> Var:
    """Round x / s + z to a whole number from q₀ to q₁, and return (q - z) · s; the gradient is dy inside."""
    s, z = _single(scale, zero_point)
    return ops.fake_quantise(x, s, z, None, quant_min, quant_max)


@aten("fake_quantize_per_channel_affine.default")
def per_channel(x: Var, scale: Var, zero_point: Var, axis: int, quant_min: int, quant_max: int) -> Var:
    """Quantise with a scale and a zero point for each element along an axis."""
    return ops.fake_quantise(x, scale, zero_point, axis, quant_min, quant_max)


QUANTISE, DEQUANTISE = (f"quantized_decomposed.{half}quantize" for half in ("", "de"))


def per_tensor_levels(x: Var, scale: Any, zero_point: Any, quant_min: int, quant_max: int, dtype: Any) -> Var:
    """Return the levels clamp(round(x / s) + z, q₀, q₁)."""
    s, z = _single(scale, zero_point)
    if isinstance(s, float) and not has_single_inverse(s):  # 1 / s is rounded once
        x, s = x * float(np.float32(1 / s)), 1.0
    return per_channel_levels(x, s, z, None, quant_min, quant_max, dtype)


def per_channel_levels(
    x: Var, scale: Any, zero_point: Any, axis: int | None, quant_min: int, quant_max: int, dtype: Any
) -> Var:
    """Return levels by a scale and a zero point for each element along an axis."""
    _check(x, scale)
    return ops.cast(clamped(nearest_levels(x, scale, zero_point, axis), quant_min, quant_max), Dtype.int32)


def per_tensor_numbers(
    q: Var, scale: Any, zero_point: Any, quant_min: int, quant_max: int, dtype: Any, out_dtype: Any = None
) -> Var:
    """Return the numbers (q - z) · s of levels."""
    _check(q, scale, out_dtype)
    return ops.dequantise(q, *_single(scale, zero_point))


def per_channel_numbers(
    q: Var,
    scale: Var,
    zero_point: Any,
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: TorchDtype,
    out_dtype: Any = None,
) -> Var:
    """Return the numbers of levels by a scale and a zero point for each element along an axis."""
    _check(q, scale, out_dtype)
    difference = q if zero_point is None else q - along(q, zero_point, axis, Dtype.int32)
    return ops.dequantise(difference, scale, 0, axis)


def has_single_inverse(scale: object) -> bool:
    """Tell whether 1 / s of a scale is the same if s is rounded to float32 before, as that of an array is."""
    if not isinstance(scale, float):
        return True
    return bool(np.float32(1 / scale) == np.float32(1) / np.float32(scale))


def _single(*numbers: Var | float) -> list[Any]:
    """Return numbers, of which arrays have one element, without axes."""
    return [ops.reshape(v) if isinstance(v, Var) else v for v in numbers]


def _check(x: Var, scale: Any, dtype: TorchDtype | None = None) -> None:
    """Raise UnsupportedOp unless numbers and scales are float32."""
    given = [each.dtype.name for each in (x, scale) if hasattr(each, "type") and each.dtype.is_floating]
    for name in (*given, *([str(dtype).removeprefix("torch.")] if dtype else ())):
        require(name == "float32", "numbers of levels, and scales, must be float32", f"some are {name}")


register(f"{QUANTISE}_per_tensor.default", f"{QUANTISE}_per_tensor.tensor", real=per_tensor_levels)
register(f"{QUANTISE}_per_channel.default", real=per_channel_levels)
register(f"{DEQUANTISE}_per_tensor.default", f"{DEQUANTISE}_per_tensor.tensor", real=per_tensor_numbers)
register(f"{DEQUANTISE}_per_channel.default", real=per_channel_numbers)
register(
    "aten.fake_quantize_per_tensor_affine_cachemask.default",
    "aten.fake_quantize_per_channel_affine_cachemask.default",
    "aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default",
    # The quantised array, and the mask of what is inside.
    shapes=lambda x, *options: (x.new_empty(x.shape), x.new_empty(x.shape).bool()),
)
