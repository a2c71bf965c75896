"""Arithmetic of two or three operands, signs, tests of numbers, and operations on bits."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

from catgrad import ops
from catgrad.frontends.torch.aten.elementwise import divide, maximum, minimum
from catgrad.frontends.torch.aten.operands import as_floating, at, common_shape, promoted, together
from catgrad.frontends.torch.aten.transcendental import floats
from catgrad.frontends.torch.registry import aten
from catgrad.ops.trigonometric import is_negative
from catgrad.terms.structural import Constant, zeros_like
from catgrad.terms.var import Var
from catgrad.types import Dtype


@aten("floor_divide.default", "floor_divide.Scalar")
def floor_divide(x: Any, y: Any) -> Any:
    """Quotient, rounded down."""
    return divide(x, y, "floor")


@aten("copysign.Tensor", "copysign.Scalar")
def copysign(x: Any, y: Any) -> Any:
    """Return |x| with the sign of y; that of -0 is negative."""
    x, y = floats(x, y)
    size = ops.absolute(x)
    return ops.select(is_negative(y), -size, size)


@aten("signbit.default")
def signbit(x: Any) -> Any:
    """Return whether the sign is negative, which that of -0 is."""
    return is_negative(x) if x.dtype.is_floating else x < 0


@aten("fmax.default")
def greater(x: Any, y: Any) -> Any:
    """Maximum of two arrays; of a NaN and a number, the number."""
    x, y = together(x, y)
    return ops.select((x >= y) | (y != y), x, y)


@aten("fmin.default")
def lesser(x: Any, y: Any) -> Any:
    """Minimum of two arrays; of a NaN and a number, the number."""
    x, y = together(x, y)
    return ops.select((x <= y) | (y != y), x, y)


@aten("clamp_min.default", "clamp_min.Tensor")
def at_least(x: Any, low: Any) -> Any:
    """Return the greater of x and a bound; x at NaN, and where both are equal."""
    x, low = together(x, low)
    return ops.select(x < low, low, x)


@aten("clamp_max.default", "clamp_max.Tensor")
def at_most(x: Any, high: Any) -> Any:
    """Return the lesser of x and a bound; x at NaN, and where both are equal."""
    x, high = together(x, high)
    return ops.select(x > high, high, x)


@aten("nan_to_num.default")
def finite(x: Any, nan: float | None = None, posinf: float | None = None, neginf: float | None = None) -> Any:
    """Replace NaN and infinities by numbers, by default 0 and the greatest of the dtype."""
    if not x.dtype.is_floating:
        return x
    limits = x.dtype.limits
    for condition, value in (
        (x != x, nan or 0.0),
        (x == inf, float(limits.max) if posinf is None else posinf),
        (x == -inf, float(limits.min) if neginf is None else neginf),
    ):
        x = ops.select(condition, Constant(x.type, value)(), x)
    return x


@aten("addcmul.default")
def add_product(x: Any, y: Any, z: Any, value: float = 1) -> Any:
    """Product and sum: x + value · y · z."""
    x, y, z = _three(x, y, z)
    product = y * z
    return x + (product if value == 1 else product * value)


@aten("addcdiv.default")
def add_quotient(x: Any, y: Any, z: Any, value: float = 1) -> Any:
    """Quotient and sum: x + value · y / z."""
    x, y, z = _three(x, y, z)
    quotient = y / z
    return x + (quotient if value == 1 else quotient * value)


@aten("lerp.Scalar", "lerp.Tensor")
def interpolate(x: Any, y: Any, weight: Any) -> Any:
    """Linear interpolation: x + weight · (y - x), from the nearer end."""
    x, y, weight = _three(x, y, weight)
    near = x + weight * (y - x)
    far = y - (y - x) * (1 - weight)
    return ops.select(ops.absolute(weight) < 0.5, near, far)


def _three(x: Any, y: Any, z: Any) -> tuple[Any, Any, Any]:
    """Convert operands to the shape of all three and the dtype of the first two."""
    dtype = promoted(x, y)
    shape = common_shape(*(v.shape for v in (x, y, z) if isinstance(v, Var)))
    return at(x, shape, dtype), at(y, shape, dtype), at(z, shape, dtype)


@aten("heaviside.default")
def step(x: Any, values: Any) -> Any:
    """Step function: 0 below 0, `values` at 0, 1 above."""
    x, values = together(x, values)
    one = Constant(x.type, 1)()
    return ops.stop_gradient(ops.select(x == 0, values, ops.select(x > 0, one, zeros_like(x))))


@aten("round.decimals")
def round_to(x: Any, decimals: int) -> Any:
    """Round to this number of decimals, to even at ties."""
    factor = 10.0 ** abs(decimals)
    scaled = x * factor if decimals >= 0 else x / factor
    whole = ops.round(scaled)
    return ops.stop_gradient(whole / factor if decimals >= 0 else whole * factor)


aten("isfinite.default")(lambda x: ops.is_finite(x) if x.dtype.is_floating else x == x)
aten("isposinf.default")(lambda x: as_floating(x) == inf)
aten("isneginf.default")(lambda x: as_floating(x) == -inf)


def _shift(name: str, operation: Callable[[Any, Any], Any]) -> None:
    overloads = [f"bitwise_{name}_shift.{kind}" for kind in ("Tensor", "Tensor_Scalar", "Scalar_Tensor")]
    overloads += [f"__{name[0]}shift__.{kind}" for kind in ("Tensor", "Scalar")]
    aten(*overloads)(lambda x, y: operation(*together(x, y)))


_shift("left", ops.shift_left)
_shift("right", ops.shift_right)


aten("max.other")(lambda x, y: maximum(x, y))
aten("min.other")(lambda x, y: minimum(x, y))


@aten("gcd.default")
def greatest_common_divisor(x: Any, y: Any) -> Any:
    """Greatest common divisor, by Euclid's algorithm."""
    return _divisor(*together(x, y))


def _divisor(x: Any, y: Any) -> Any:
    """Return the last remainder of Euclid's algorithm that is not 0, after as many steps as it may need."""

    def remainder(a: Any, b: Any) -> tuple[Any, Any]:
        return ops.select(b == 0, a, b), ops.select(b == 0, b, ops.remainder(a, ops.select(b == 0, a + 1, b)))

    steps = 47 if x.dtype is Dtype.int32 else 93  # Fibonacci numbers need the most
    return ops.repeat(remainder, steps, ops.absolute(x), ops.absolute(y))[0]


@aten("lcm.default")
def least_common_multiple(x: Any, y: Any) -> Any:
    """Least common multiple; 0 if an operand is."""
    x, y = together(x, y)
    divisor = _divisor(x, y)
    one = Constant(x.type, 1)()
    return ops.absolute(ops.floor_divide(x, ops.select(divisor == 0, one, divisor)) * y)
