"""Fake quantisation: rounding to a grid of whole numbers, with the gradient of the identity inside."""

from __future__ import annotations

from typing import Any

from catgrad import ops
from catgrad.frontends.torch.registry import aten, register
from catgrad.terms.var import Var


@aten("fake_quantize_per_tensor_affine.default", "fake_quantize_per_tensor_affine.tensor_qparams")
def per_tensor(x: Var, scale: Any, zero_point: Any, quant_min: int, quant_max: int) -> Var:
    """Round x / s + z to a whole number from q₀ to q₁, and return (q - z) · s; the gradient is dy inside."""
    scale, zero_point = (ops.reshape(v) if hasattr(v, "type") else v for v in (scale, zero_point))
    return ops.fake_quantise(x, scale, zero_point, None, quant_min, quant_max)


@aten("fake_quantize_per_channel_affine.default")
def per_channel(x: Var, scale: Any, zero_point: Any, axis: int, quant_min: int, quant_max: int) -> Var:
    """Quantise with a scale and a zero point for each element along an axis."""
    return ops.fake_quantise(x, scale, zero_point, axis, quant_min, quant_max)


register(
    "aten.fake_quantize_per_tensor_affine_cachemask.default",
    "aten.fake_quantize_per_channel_affine_cachemask.default",
    "aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default",
    # The quantised array, and the mask of what is inside.
    shapes=lambda x, *options: (x.new_empty(x.shape), x.new_empty(x.shape).bool()),
)
