"""Activations with parameters."""

from __future__ import annotations

from math import inf, isfinite

from catgrad import ops
from catgrad.frontends.torch.aten.operands import Operand, together
from catgrad.frontends.torch.registry import aten
from catgrad.terms.structural import Constant
from catgrad.terms.var import Var

aten("gelu.default")(lambda x, approximate="none": (ops.gelu if approximate == "none" else ops.gelu_tanh)(x))
aten("leaky_relu.default")(lambda x, negative_slope=0.01: ops.leaky_relu(x, negative_slope))


@aten("elu.default")
def elu(x: Var, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Var:
    """ELU: scale · (x where x > 0, alpha · (e^(input_scale · x) - 1) elsewhere)."""
    if input_scale == 1:
        y = ops.elu(x, alpha)
    else:
        # Otherwise the exponential of a large x would be infinite, and its gradient NaN.
        below = ops.minimum(x, Constant(x.type, 0)())
        y = ops.select(x > 0, x, ops.expm1(below * input_scale) * alpha)
    return y if scale == 1 else y * scale


@aten("softplus.default")
def softplus(x: Var, beta: float = 1, threshold: float = 20) -> Var:
    """Softplus: ln(1 + e^(beta · x)) / beta, and x where beta · x > threshold."""
    scaled = x if beta == 1 else x * beta
    y = ops.softplus(scaled)
    return ops.select(scaled > threshold, x, y if beta == 1 else y / beta)


@aten("hardtanh.default")
def hardtanh(x: Var, min_val: float = -1, max_val: float = 1) -> Var:
    """Hardtanh: clamp x to bounds, with gradient 0 at the bounds, unlike clamp."""
    low, high = Constant(x.type, min_val)(), Constant(x.type, max_val)()
    return ops.select(x <= low, low, ops.select(x >= high, high, x))


@aten("clamp.default")
def clamp(x: Var, min: float | None = None, max: float | None = None) -> Var:
    """Clamp x to bounds, with gradient 1 at the bounds."""
    low, high = None if min == -inf else min, None if max == inf else max
    bounds = [bound for bound in (low, high) if bound is not None]
    if x.dtype.is_floating and bounds and bounds == sorted(bounds) and all(map(isfinite, bounds)):
        return ops.clamp(x, low, high)
    y = x
    if low is not None:
        y = ops.select(y < low, Constant(x.type, low)(), y)
    if high is not None:
        y = ops.select(y > high, Constant(x.type, high)(), y)
    return ops.select(x == x, y, ops.stop_gradient(y)) if x.dtype.is_floating else y


@aten("clamp.Tensor")
def clamp_by(x: Var, min: Operand | None = None, max: Operand | None = None) -> Var:
    """Clamp x to bounds that are arrays, which get the gradient where x is out of bounds."""
    if min is not None:
        x, low = together(x, min)
        x = ops.select(x < low, low, x)
    if max is not None:
        x, high = together(x, max)
        x = ops.select(x > high, high, x)
    return x


aten("clamp_min.default", "clamp_min.Tensor")(lambda x, low: clamp_by(x, low))
aten("clamp_max.default", "clamp_max.Tensor")(lambda x, high: clamp_by(x, None, high))
