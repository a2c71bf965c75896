"""Functions of complex numbers, by their parts, or by absolute value and angle."""

from __future__ import annotations

from functools import reduce
from typing import Any

from catgrad import ops
from catgrad.frontends.torch.aten.comparisons import truth
from catgrad.frontends.torch.aten.complex import polar, scaled
from catgrad.frontends.torch.aten.creation import to
from catgrad.frontends.torch.aten.elementwise import divide
from catgrad.frontends.torch.aten.operands import Dims, TorchDtype, dtype_from
from catgrad.frontends.torch.aten.pairs import Complex, Pair, imaginary_of, in_parts, is_complex, real_of
from catgrad.frontends.torch.aten.statistics import norm
from catgrad.frontends.torch.aten.transcendental import hypotenuse
from catgrad.frontends.torch.registry import of_pairs, real, require
from catgrad.ops.trigonometric import common_scale, is_negative
from catgrad.terms.structural import Constant, zeros_like
from catgrad.terms.var import Var
from catgrad.types import Dtype

MAX_PRODUCTS = 8
"""The greatest exponent of a power by repeated products."""


@of_pairs("_to_copy.default")
def cast(x: Any, dtype: TorchDtype | None = None) -> Any:
    """Cast to a complex dtype; or to a real one, which has the real part, or to bool: whether it is not 0."""
    if dtype is None or is_complex(dtype):
        return in_parts(to, ["x"])(x, dtype)
    return truth(x.real) | truth(x.imag) if dtype_from(dtype) is Dtype.bool else to(x.real, dtype)


@of_pairs("reciprocal.default")
def reciprocal(x: Pair) -> Pair:
    """Reciprocal: 1 / z = conj z / |z|², without overflow of the square."""
    scale = common_scale(x.real, x.imag)
    a, b = x.real / scale, x.imag / scale
    square = (a * a + b * b) * scale
    return Pair(a / square, -b / square)


@of_pairs("div.Tensor", "div.Scalar")
def quotient(x: Any, y: Complex) -> Any:
    """Quotient: x / y."""
    if not isinstance(y, (Pair, complex)):
        return Pair(divide(x.real, y), divide(x.imag, y))
    return scaled(x, 1 / y if isinstance(y, complex) else reciprocal(y))


def _is_zero(x: Pair) -> Var:
    return (x.real == 0) & (x.imag == 0)


@of_pairs("abs.default")
def absolute(x: Pair) -> Var:
    """Absolute value: √(x² + y²), with gradient 0 at 0."""
    is_zero = _is_zero(x)
    size = hypotenuse(ops.select(is_zero, Constant(x.type, 1)(), x.real), x.imag)
    return ops.select(is_zero, zeros_like(size), size)


@of_pairs("angle.default")
def angle_of(x: Pair) -> Var:
    """Angle of a complex number, with gradient 0 at 0."""
    is_zero, scale = _is_zero(x), common_scale(x.real, x.imag)
    one = Constant(x.type, 1)()
    beside = ops.select(is_negative(x.real), -one, one)  # for zeros too, the sign decides on 0 or π
    theta = ops.arctan2(x.imag / scale, ops.select(is_zero, beside, x.real / scale))
    return ops.select(is_zero, ops.stop_gradient(theta), theta)


@of_pairs("sgn.default")
def direction(x: Pair) -> Pair:
    """Direction: z / |z|, which is 0 at 0, with gradient 0."""
    is_zero = _is_zero(x)
    size = ops.select(is_zero, Constant(x.type, 1)(), absolute(x))
    zero = zeros_like(size)
    return Pair(ops.select(is_zero, zero, x.real / size), ops.select(is_zero, zero, x.imag / size))


@of_pairs("exp.default")
def exponential(x: Pair) -> Pair:
    """Exponential: e^x (cos y + i sin y)."""
    return polar(ops.exp(x.real), x.imag)


@of_pairs("log.default")
def logarithm(x: Pair) -> Pair:
    """Principal logarithm: ln |z| + i arg z."""
    return Pair(ops.log(absolute(x)), angle_of(x))


@of_pairs("pow.Tensor_Scalar")
def power(x: Pair, exponent: Any) -> Pair:
    """Power with a real exponent: repeated products, or by the angle."""
    require(not is_complex(exponent), "an exponent must be real", f"it is {exponent}", "use torch.exp")
    if exponent < 0:
        return power(reciprocal(x), -exponent)
    if exponent in range(1, MAX_PRODUCTS + 1):
        return reduce(scaled, [x] * int(exponent))
    return polar(ops.power(absolute(x), Constant(x.type, exponent)()), angle_of(x) * exponent)


@of_pairs("sin.default")
def sine(x: Pair) -> Pair:
    """Sine: sin x cosh y + i cos x sinh y."""
    return Pair(ops.sin(x.real) * ops.cosh(x.imag), ops.cos(x.real) * ops.sinh(x.imag))


@of_pairs("cos.default")
def cosine(x: Pair) -> Pair:
    """Cosine: cos x cosh y - i sin x sinh y."""
    return Pair(ops.cos(x.real) * ops.cosh(x.imag), -ops.sin(x.real) * ops.sinh(x.imag))


of_pairs("sqrt.default")(lambda x: power(x, 0.5))


@of_pairs("linalg_vector_norm.default")
def norm_of_pair(x: Pair, ord: float = 2, dim: Dims = None, keepdim: bool = False, dtype: Any = None) -> Var:
    """Norm of the absolute values."""
    return norm(absolute(x), ord, dim, keepdim, dtype)


@of_pairs("eq.Tensor", "eq.Scalar")
def equal(x: Complex, y: Complex) -> Any:
    """Return whether both parts are equal."""
    same = real("eq.Tensor")
    return same(real_of(x), real_of(y)) & same(imaginary_of(x), imaginary_of(y))


of_pairs("ne.Tensor", "ne.Scalar")(lambda x, y: ~equal(x, y))
of_pairs("isfinite.default")(lambda x: ops.is_finite(x.real) & ops.is_finite(x.imag))
of_pairs("isnan.default")(lambda x: ops.is_nan(x.real) | ops.is_nan(x.imag))
