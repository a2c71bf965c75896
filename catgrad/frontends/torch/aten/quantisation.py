"""Fake quantisation: rounding to a grid of whole numbers, with the gradient of the identity inside."""

from __future__ import annotations

from typing import Any

from catgrad import ops
from catgrad.frontends.torch.aten.operands import at
from catgrad.frontends.torch.registry import aten, register
from catgrad.terms.structural import stop_gradient, zeros_like


@aten("fake_quantize_per_tensor_affine.default", "fake_quantize_per_tensor_affine.tensor_qparams")
def per_tensor(x: Any, scale: Any, zero_point: Any, quant_min: int, quant_max: int) -> Any:
    """Round x / s + z to a whole number from q₀ to q₁, and return (q - z) · s; the gradient is dy inside."""
    return _quantised(x, at(scale, x.shape, x.dtype), at(zero_point, x.shape, x.dtype), quant_min, quant_max)


@aten("fake_quantize_per_channel_affine.default")
def per_channel(x: Any, scale: Any, zero_point: Any, axis: int, quant_min: int, quant_max: int) -> Any:
    """Quantise with a scale and a zero point for each element along an axis."""
    shape = [1] * axis + [x.shape[axis]] + [1] * (x.type.rank - axis - 1)
    s, z = (at(ops.reshape(v, *shape), x.shape, x.dtype) for v in (scale, zero_point))
    return _quantised(x, s, z, quant_min, quant_max)


def _quantised(x: Any, scale: Any, zero_point: Any, least: int, most: int) -> Any:
    whole = zero_point + ops.round(x * (1.0 / scale))
    clamped = ops.clamp(whole, float(least), float(most))
    straight = ops.select(ops.equal(whole, clamped), x, zeros_like(x))
    return stop_gradient((clamped - zero_point) * scale) + (straight - stop_gradient(straight))


def _results(x: Any, *options: Any) -> tuple[Any, Any]:
    """Return the quantised array, and the mask of what is inside, without values."""
    return x.new_empty(x.shape), x.new_empty(x.shape).bool()


register(
    "aten.fake_quantize_per_tensor_affine_cachemask.default",
    "aten.fake_quantize_per_channel_affine_cachemask.default",
    "aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default",
    shapes=_results,
)
