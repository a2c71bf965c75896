"""Inverse trigonometric and hyperbolic functions, exponentials and logarithms."""

from __future__ import annotations

from math import inf, log, pi

from catgrad import ops
from catgrad.frontends.torch.aten.operands import as_floating, floats, of_floating, of_two
from catgrad.frontends.torch.registry import aten
from catgrad.ops.trigonometric import common_scale
from catgrad.terms.structural import Constant, zeros_like
from catgrad.terms.var import Var


def _sinc(x: Var) -> Var:
    """Return sin(πx) / (πx), and 1 at 0, with gradient 0, as of numbers whose reciprocal overflows."""
    one, is_zero = Constant(x.type, 1)(), ops.absolute(x) < float(x.dtype.limits.tiny)
    angle = pi * ops.select(is_zero, one, x)
    return ops.select(is_zero, one, ops.sin(angle) / angle)


of_floating({
    "acos": ops.arccos, "acosh": ops.arcosh, "asin": ops.arcsin, "asinh": ops.arsinh,
    "atan": ops.arctan, "atanh": ops.artanh,
    "cosh": ops.cosh, "sinh": ops.sinh, "exp2": lambda x: ops.power(Constant(x.type, 2)(), x),
    "deg2rad": lambda x: x * (pi / 180), "rad2deg": lambda x: x * (180 / pi), "sinc": _sinc,
    "frac": lambda x: x - ops.stop_gradient(ops.sign(x) * ops.floor(ops.absolute(x))),
    "special_entr": ops.entropy,
})  # fmt: skip

aten("square.default")(lambda x: x * x)
of_two("atan2.default", convert=floats)(ops.arctan2)


@of_two("hypot.default", convert=floats)
def hypotenuse(x: Var, y: Var) -> Var:
    """Hypotenuse: √(x² + y²), without overflow of the squares."""
    scale = common_scale(x, y)
    a, b = x / scale, y / scale
    return scale * ops.sqrt(a * a + b * b)


of_two("logaddexp.default")(ops.logaddexp)


@of_two("logaddexp2.default")
def log2_of_sum(x: Var, y: Var) -> Var:
    """Logarithm of a sum of powers of 2: log₂(2ˣ + 2ʸ)."""
    return ops.logaddexp(x * log(2), y * log(2)) * (1 / log(2))


@aten("logit.default")
def logit(x: Var, eps: float | None = None) -> Var:
    """Logit: ln(x / (1 - x)), for x clamped to eps … 1 - eps."""
    x = as_floating(x)
    if eps is not None:
        low, high = Constant(x.type, eps)(), Constant(x.type, 1 - eps)()
        x = ops.select(x < low, low, ops.select(x > high, high, x))
    return ops.log(x) - ops.log1p(-x)


@of_two("xlogy.Tensor", "xlogy.Scalar_Self", "xlogy.Scalar_Other", convert=floats)
def product_with_log(x: Var, y: Var) -> Var:
    """Product with a logarithm: x · ln y, which is 0 where x is 0."""
    return x * ops.log(ops.select((x == 0) & ((y <= 0) | (y == inf)), Constant(y.type, 1)(), y))


@of_two(*(f"special_xlog1py.{kind}" for kind in ("default", "self_scalar", "other_scalar")), convert=floats)
def product_with_log1p(x: Var, y: Var) -> Var:
    """Product with a logarithm: x · ln(1 + y), which is 0 where x is 0."""
    return x * ops.log1p(ops.select((x == 0) & ((y <= -1) | (y == inf)), zeros_like(y), y))


of_two("ldexp.Tensor", convert=floats)(lambda x, y: x * ops.power(Constant(y.type, 2)(), y))


@aten("angle.default")
def angle_of_real(x: Var) -> Var:
    """Angle of a real number: π below 0, else 0, and NaN at NaN."""
    x = as_floating(x)
    turned = ops.select(x < 0, Constant(x.type, pi)(), zeros_like(x))
    return ops.stop_gradient(ops.select(x == x, turned, x))
