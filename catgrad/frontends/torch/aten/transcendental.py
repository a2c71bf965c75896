"""Inverse trigonometric and hyperbolic functions, exponentials and logarithms."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, log, pi
from typing import Any

from catgrad import ops
from catgrad.frontends.torch.aten.operands import as_floating, default_float, of_floating, promoted, together
from catgrad.frontends.torch.registry import aten
from catgrad.ops.trigonometric import common_scale
from catgrad.terms.structural import Constant, zeros_like


def _sinc(x: Any) -> Any:
    """Return sin(πx) / (πx), and 1 at 0, with gradient 0, as of numbers whose reciprocal overflows."""
    one, is_zero = Constant(x.type, 1)(), ops.absolute(x) < float(x.dtype.limits.tiny)
    angle = pi * ops.select(is_zero, one, x)
    return ops.select(is_zero, one, ops.sin(angle) / angle)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "acos": ops.arccos, "acosh": ops.arcosh, "asin": ops.arcsin, "asinh": ops.arsinh,
    "atan": ops.arctan, "atanh": ops.artanh,
    "cosh": ops.cosh, "sinh": ops.sinh, "exp2": lambda x: ops.power(Constant(x.type, 2)(), x),
    "deg2rad": lambda x: x * (pi / 180), "rad2deg": lambda x: x * (180 / pi), "sinc": _sinc,
    "frac": lambda x: x - ops.stop_gradient(ops.sign(x) * ops.floor(ops.absolute(x))),
}  # fmt: skip


for _name, _function in FUNCTIONS.items():
    of_floating(_name, _function)


aten("square.default")(lambda x: x * x)


def floats(x: Any, y: Any) -> tuple[Any, Any]:
    """Convert two operands to one shape and a floating-point dtype."""
    dtype = promoted(x, y)
    return together(x, y, dtype if dtype.is_floating else default_float())


@aten("atan2.default")
def angle(y: Any, x: Any) -> Any:
    """Angle of the point (x, y)."""
    return ops.arctan2(*floats(y, x))


@aten("hypot.default")
def hypotenuse(x: Any, y: Any) -> Any:
    """Hypotenuse: √(x² + y²), without overflow of the squares."""
    x, y = floats(x, y)
    scale = common_scale(x, y)
    a, b = x / scale, y / scale
    return scale * ops.sqrt(a * a + b * b)


@aten("logaddexp.default")
def log_of_sum(x: Any, y: Any) -> Any:
    """Logarithm of a sum of exponentials: ln(eˣ + eʸ)."""
    return ops.logaddexp(*together(x, y))


@aten("logaddexp2.default")
def log2_of_sum(x: Any, y: Any) -> Any:
    """Logarithm of a sum of powers of 2: log₂(2ˣ + 2ʸ)."""
    x, y = together(x, y)
    return ops.logaddexp(x * log(2), y * log(2)) * (1 / log(2))


@aten("logit.default")
def logit(x: Any, eps: float | None = None) -> Any:
    """Logit: ln(x / (1 - x)), for x clamped to eps … 1 - eps."""
    x = as_floating(x)
    if eps is not None:
        low, high = Constant(x.type, eps)(), Constant(x.type, 1 - eps)()
        x = ops.select(x < low, low, ops.select(x > high, high, x))
    return ops.log(x) - ops.log1p(-x)


@aten("xlogy.Tensor", "xlogy.Scalar_Self", "xlogy.Scalar_Other")
def product_with_log(x: Any, y: Any) -> Any:
    """Product with a logarithm: x · ln y, which is 0 where x is 0."""
    x, y = floats(x, y)
    return x * ops.log(ops.select((x == 0) & ((y <= 0) | (y == inf)), Constant(y.type, 1)(), y))


@aten("special_xlog1py.default", "special_xlog1py.self_scalar", "special_xlog1py.other_scalar")
def product_with_log1p(x: Any, y: Any) -> Any:
    """Product with a logarithm: x · ln(1 + y), which is 0 where x is 0."""
    x, y = floats(x, y)
    return x * ops.log1p(ops.select((x == 0) & ((y <= -1) | (y == inf)), zeros_like(y), y))


@aten("special_entr.default")
def entropy(x: Any) -> Any:
    """Entropy: -x · ln x, which is 0 at 0 and -∞ below."""
    return ops.entropy(as_floating(x))


@aten("ldexp.Tensor")
def times_power_of_2(x: Any, y: Any) -> Any:
    """Product with a power of 2: x · 2ʸ."""
    x, y = floats(x, y)
    return x * ops.power(Constant(y.type, 2)(), y)


@aten("angle.default")
def angle_of_real(x: Any) -> Any:
    """Angle of a real number: π below 0, else 0, and NaN at NaN."""
    x = as_floating(x)
    turned = ops.select(x < 0, Constant(x.type, pi)(), zeros_like(x))
    return ops.stop_gradient(ops.select(x == x, turned, x))
