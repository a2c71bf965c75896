"""Arithmetic and functions of one variable, element by element."""

from __future__ import annotations

from collections.abc import Callable
from math import log

from catgrad import ops
from catgrad.dims import Size
from catgrad.frontends.torch.aten.operands import default_float, of_floating, of_two, promoted, together
from catgrad.frontends.torch.registry import aten
from catgrad.terms.structural import Constant
from catgrad.terms.var import Var
from catgrad.types import Dtype


@aten("add.Tensor", "add.Scalar")
def add(x: Var, y: Var | Size | float, alpha: float = 1) -> Var:
    """Sum: x + alpha · y; disjunction of booleans."""
    x, y = together(x, y)
    if x.dtype is Dtype.bool:
        return x | y
    return x + (y if alpha == 1 else y * alpha)


@aten("sub.Tensor", "sub.Scalar")
def subtract(x: Var, y: Var | Size | float, alpha: float = 1) -> Var:
    """Difference: x - alpha · y."""
    x, y = together(x, y)
    return x - (y if alpha == 1 else y * alpha)


@aten("rsub.Tensor", "rsub.Scalar")
def subtract_from(x: Var, y: Var | Size | float, alpha: float = 1) -> Var:
    """Reversed difference: y - alpha · x."""
    x, y = together(x, y)
    return y - (x if alpha == 1 else x * alpha)


@aten("mul.Tensor", "mul.Scalar")
def multiply(x: Var, y: Var | Size | float) -> Var:
    """Product: x · y; conjunction of booleans."""
    x, y = together(x, y)
    return x & y if x.dtype is Dtype.bool else x * y


@aten("div.Tensor", "div.Scalar", "div.Tensor_mode", "div.Scalar_mode")
def divide(x: Var, y: Var | Size | float, rounding_mode: str | None = None) -> Var:
    """Quotient: x / y, rounded as `rounding_mode` says."""
    dtype = promoted(x, y)
    if rounding_mode is None and not dtype.is_floating:
        dtype = default_float()
    x, y = together(x, y, dtype)
    if rounding_mode is None:
        return x / y
    if dtype.is_floating:
        return ops.stop_gradient(_floor_of_quotient(x, y) if rounding_mode == "floor" else truncate(x / y))
    down = ops.floor_divide(x, y)
    if rounding_mode == "floor":
        return down
    is_below = (x - down * y != 0) & ((x < 0) != (y < 0))
    return ops.select(is_below, down + 1, down)


def _floor_of_quotient(x: Var, y: Var) -> Var:
    """Return ⌊x / y⌋ of the exact quotient, which the rounded one may exceed: 1 / 0.1 is 9.99…, not 10.

    Source: `div_floor_floating` of PyTorch
    """
    rest = ops.fmod(x, y)
    whole = (x - rest) / y
    whole = ops.select((rest != 0) & ((rest < 0) != (y < 0)), whole - 1, whole)
    near = ops.floor(whole)
    return ops.select(y == 0, x / y, ops.select(whole - near > 0.5, near + 1, near))


@aten("pow.Tensor_Scalar")
def power(x: Var, exponent: float) -> Var:
    """Power with a constant exponent, by a simpler operation where there is one."""
    dtype = promoted(x, exponent)
    x = ops.cast(x, dtype)
    own: dict[float, Callable[[Var], Var]] = {1: lambda x: x, 2: ops.square, 3: lambda x: x * x * x}
    if dtype.is_floating:
        own |= {0.5: ops.sqrt, -0.5: ops.rsqrt, -1: ops.reciprocal}
    return own[exponent](x) if exponent in own else x**exponent


of_two("pow.Tensor_Tensor", "pow.Scalar")(ops.power)


@of_two("maximum.default", "max.other")
def maximum(x: Var, y: Var) -> Var:
    """Maximum of two arrays."""
    return ops.maximum(x, y) if x.dtype.is_floating else ops.select(x > y, x, y)


@of_two("minimum.default", "min.other")
def minimum(x: Var, y: Var) -> Var:
    """Minimum of two arrays."""
    return ops.minimum(x, y) if x.dtype.is_floating else ops.select(x < y, x, y)


@of_two("fmod.Tensor", "fmod.Scalar")
def fmod(x: Var, y: Var) -> Var:
    """Return the remainder with the sign of x."""
    if x.dtype.is_floating:
        return ops.fmod(x, y)
    rest = ops.remainder(x, y)
    return ops.select((rest != 0) & ((x < 0) != (y < 0)), rest - y, rest)


@of_two("remainder.Tensor", "remainder.Scalar")
def remainder(x: Var, y: Var) -> Var:
    """Return the remainder with the sign of y."""
    if not x.dtype.is_floating:
        return ops.remainder(x, y)
    rest = ops.fmod(x, y)
    return ops.select((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest)


@aten("trunc.default")
def truncate(x: Var) -> Var:
    """Truncation: x without its fraction."""
    return ops.sign(x) * ops.floor(ops.absolute(x))


def _sign(x: Var) -> Var:
    """Return -1, 0 or 1; 0 for NaN, of which NumPy's sign is NaN."""
    return ops.select(x != x, Constant(x.type, 0)(), ops.sign(x)) if x.dtype.is_floating else ops.sign(x)


UNARY: dict[str, Callable[[Var], Var]] = {
    "abs": ops.absolute, "floor": ops.floor, "ceil": lambda x: -ops.floor(-x), "round": ops.round,
    "neg": ops.negate, "_neg_view": ops.negate, "relu": ops.relu, "sgn": _sign, "sign": _sign,
}  # fmt: skip
for _name, _function in UNARY.items():
    aten(f"{_name}.default")(_function)

of_floating({
    "cos": ops.cos, "erf": ops.erf, "exp": ops.exp, "expm1": ops.expm1, "log": ops.log,
    "log10": lambda x: ops.log(x) * (1 / log(10)), "log1p": ops.log1p,
    "log2": lambda x: ops.log(x) * (1 / log(2)), "reciprocal": ops.reciprocal, "rsqrt": ops.rsqrt,
    "sigmoid": ops.sigmoid, "silu": ops.silu, "sin": ops.sin, "sqrt": ops.sqrt,
    "tan": lambda x: ops.sin(x) / ops.cos(x), "tanh": ops.tanh,
})  # fmt: skip
