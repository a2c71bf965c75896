"""Arithmetic of two or three operands, signs, tests of numbers, and operations on bits."""

from __future__ import annotations

from math import inf

from catgrad import ops
from catgrad.frontends.torch.aten.elementwise import divide
from catgrad.frontends.torch.aten.operands import as_floating, at, common_shape, floats, of_two, promoted
from catgrad.frontends.torch.registry import aten
from catgrad.ops.trigonometric import is_negative
from catgrad.terms.structural import Constant, zeros_like
from catgrad.terms.var import Var
from catgrad.types import Dtype

aten("floor_divide.default", "floor_divide.Scalar")(lambda x, y: divide(x, y, "floor"))


@of_two("copysign.Tensor", "copysign.Scalar", convert=floats)
def copysign(x: Var, y: Var) -> Var:
    """Return |x| with the sign of y; that of -0 is negative."""
    size = ops.absolute(x)
    return ops.select(is_negative(y), -size, size)


aten("signbit.default")(lambda x: is_negative(x) if x.dtype.is_floating else x < 0)


# Of a NaN and a number, the number.
of_two("fmax.default")(lambda x, y: ops.select((x >= y) | (y != y), x, y))
of_two("fmin.default")(lambda x, y: ops.select((x <= y) | (y != y), x, y))


@aten("nan_to_num.default")
def finite(x: Var, nan: float | None = None, posinf: float | None = None, neginf: float | None = None) -> Var:
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
def add_product(x: Var, y: Var, z: Var, value: float = 1) -> Var:
    """Product and sum: x + value · y · z."""
    x, y, z = _three(x, y, z)
    product = y * z
    return x + (product if value == 1 else product * value)


@aten("addcdiv.default")
def add_quotient(x: Var, y: Var, z: Var, value: float = 1) -> Var:
    """Quotient and sum: x + value · y / z."""
    x, y, z = _three(x, y, z)
    quotient = y / z
    return x + (quotient if value == 1 else quotient * value)


@aten("lerp.Scalar", "lerp.Tensor")
def interpolate(x: Var, y: Var, weight: Var | float) -> Var:
    """Linear interpolation: x + weight · (y - x), from the nearer end."""
    x, y, weight = _three(x, y, weight)
    near = x + weight * (y - x)
    far = y - (y - x) * (1 - weight)
    return ops.select(ops.absolute(weight) < 0.5, near, far)


def _three(x: Var, y: Var, z: Var | float) -> tuple[Var, Var, Var]:
    """Convert operands to the shape of all three and the dtype of the first two."""
    dtype = promoted(x, y)
    shape = common_shape(*(v.shape for v in (x, y, z) if isinstance(v, Var)))
    return at(x, shape, dtype), at(y, shape, dtype), at(z, shape, dtype)


@of_two("heaviside.default")
def step(x: Var, values: Var) -> Var:
    """Step function: 0 below 0, `values` at 0, 1 above."""
    one = Constant(x.type, 1)()
    return ops.stop_gradient(ops.select(x == 0, values, ops.select(x > 0, one, zeros_like(x))))


@aten("round.decimals")
def round_to(x: Var, decimals: int) -> Var:
    """Round to this number of decimals, to even at ties."""
    factor = 10.0 ** abs(decimals)
    scaled = x * factor if decimals >= 0 else x / factor
    whole = ops.round(scaled)
    return ops.stop_gradient(whole / factor if decimals >= 0 else whole * factor)


aten("isfinite.default")(lambda x: ops.is_finite(x) if x.dtype.is_floating else x == x)
aten("isposinf.default")(lambda x: as_floating(x) == inf)
aten("isneginf.default")(lambda x: as_floating(x) == -inf)

for _name, _shift in (("left", ops.shift_left), ("right", ops.shift_right)):
    of_two(
        *(f"bitwise_{_name}_shift.{kind}" for kind in ("Tensor", "Tensor_Scalar", "Scalar_Tensor")),
        *(f"__{_name[0]}shift__.{kind}" for kind in ("Tensor", "Scalar")),
    )(_shift)


@of_two("gcd.default")
def greatest_common_divisor(x: Var, y: Var) -> Var:
    """Return the last remainder of Euclid's algorithm that is not 0, after as many steps as it may need."""

    def remainder(a: Var, b: Var) -> tuple[Var, Var]:
        return ops.select(b == 0, a, b), ops.select(b == 0, b, ops.remainder(a, ops.select(b == 0, a + 1, b)))

    steps = 47 if x.dtype is Dtype.int32 else 93  # Fibonacci numbers need the most
    result: Var = ops.repeat(remainder, steps, ops.absolute(x), ops.absolute(y))[0]
    return result


@of_two("lcm.default")
def least_common_multiple(x: Var, y: Var) -> Var:
    """Least common multiple; 0 if an operand is."""
    divisor = greatest_common_divisor(x, y)
    one = Constant(x.type, 1)()
    return ops.absolute(ops.floor_divide(x, ops.select(divisor == 0, one, divisor)) * y)
