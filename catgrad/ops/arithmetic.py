"""Arithmetic, element by element."""

from __future__ import annotations

import numpy as np

from catgrad.ops.compare import select
from catgrad.ops.scalar import Flat, FloatMap, ScalarMap
from catgrad.terms.op import INPUTS, NOTHING, Saves
from catgrad.terms.structural import zeros_like
from catgrad.terms.var import Var
from catgrad.types import Array

__all__ = [
    "absolute", "add", "divide", "floor", "maximum", "minimum", "multiply", "negate", "reciprocal",
    "round", "sign", "square", "subtract",
]  # fmt: skip


class Add(ScalarMap, symbol="+"):
    """Sum: z = x + y.

    Type:     (T, T) -> T
    Gradient: dx = dz, dy = dz
    """

    saves = NOTHING
    result = "total"
    commutative = True
    left_unit = right_unit = 0.0
    ref = np.add

    def rev(self, dz: Var) -> tuple[Var, Var]:
        return dz, dz


class Subtract(ScalarMap, symbol="-"):
    """Difference: z = x - y.

    Type:     (T, T) -> T
    Gradient: dx = dz, dy = -dz
    """

    saves = NOTHING
    result = "difference"
    right_unit = 0.0
    ref = np.subtract

    def rev(self, dz: Var) -> tuple[Var, Var]:
        return dz, -dz


class Multiply(ScalarMap, symbol="*"):
    """Product: z = x · y.

    Type:     (T, T) -> T
    Gradient: dx = dz · y, dy = dz · x
    """

    rounds_once = True
    result = "product"
    commutative = True
    left_unit = right_unit = 1.0
    ref = np.multiply

    def rev(self, x: Var, y: Var, dz: Var) -> tuple[Var, Var]:
        return dz * y, dz * x


class Divide(FloatMap, symbol="/"):
    """Quotient: z = x / y, for floating T.

    Type:     (T, T) -> T
    Domain:   y ≠ 0; elsewhere IEEE 754 infinities and NaN
    Gradient: dx = dz / y, dy = -dz · z / y
    """

    saves = Saves(inputs=(1,), outputs=...)
    result = "quotient"
    right_unit = 1.0
    domain = (0.5, 2.0)
    costly = True
    ref = np.divide

    def rev(self, y: Var, z: Var, dz: Var) -> tuple[Var, Var]:
        dx = dz / y
        return dx, -(dx * z)


class Negate(ScalarMap, symbol="neg"):
    """Negative: y = -x.

    Type:     (T) -> T
    Gradient: dx = -dy
    """

    saves = NOTHING
    result = "negative"
    involution = True
    ref = np.negative

    def rev(self, dy: Var) -> Var:
        return -dy


class Square(ScalarMap):
    """Square: y = x².

    Type:     (T) -> T
    Gradient: dx = 2 · dy · x
    """

    rounds_once = True

    def ref(self, x: Array) -> Array:
        return x * x

    def body(self, x: Var) -> Var:
        return x * x

    def rev(self, x: Var, dy: Var) -> Var:
        # Multiply the cotangent first: for a mean it is a scalar, broadcast later.
        return (2 * dy) * x


class Abs(ScalarMap):
    """Absolute value: y = |x|.

    Type:     (T) -> T
    Gradient: dx = dy · sign x, so 0 at 0
    """

    rounds_once = True
    ref = np.abs

    def rev(self, x: Var, dy: Var) -> Var:
        return dy * sign(x)


class Sign(Flat, ScalarMap):
    """Sign: y = -1, 0 or 1.

    Type:     (T) -> T
    Gradient: 0
    """

    ref = np.sign


class Floor(Flat, FloatMap):
    """The greatest integer not above x: y = ⌊x⌋, for floating T.

    Type:     (T) -> T
    Gradient: 0
    """

    ref = np.floor


class Round(Flat, FloatMap):
    """The nearest integer, the even one at ties, for floating T.

    Type:     (T) -> T
    Gradient: 0
    """

    ref = np.rint


class Maximum(ScalarMap):
    """The greater of two: z = max(x, y); NaN if either is.

    Type:     (T, T) -> T
    Gradient: dz to the greater one, half to each at ties, and to both if either is NaN (as torch.maximum);
              for integer T to x at ties
    """

    saves = INPUTS
    rounds_once = True
    commutative = True
    ref = np.maximum

    def rev(self, x: Var, y: Var, dz: Var) -> tuple[Var, Var]:
        return _to_chosen(x < y, x > y, x == y, dz)


class Minimum(ScalarMap):
    """The lesser of two: z = min(x, y); NaN if either is.

    Type:     (T, T) -> T
    Gradient: dz to the lesser one, half to each at ties, and to both if either is NaN (as torch.minimum);
              for integer T to x at ties
    """

    saves = INPUTS
    rounds_once = True
    commutative = True
    ref = np.minimum

    def rev(self, x: Var, y: Var, dz: Var) -> tuple[Var, Var]:
        return _to_chosen(x > y, x < y, x == y, dz)


def _to_chosen(not_x: Var, not_y: Var, ties: Var, dz: Var) -> tuple[Var, Var]:
    """Return the cotangents of two numbers, one of which is selected; halves where they are equal."""
    zero = zeros_like(dz)
    if not dz.dtype.is_floating:
        return select(not_x, zero, dz), select(not_x, dz, zero)
    shared = select(ties, dz / 2, dz)
    return select(not_x, zero, shared), select(not_y, zero, shared)


add, subtract, multiply, divide = Add(), Subtract(), Multiply(), Divide()
negate, square, absolute, sign = Negate(), Square(), Abs(), Sign()
floor, round, maximum, minimum = Floor(), Round(), Maximum(), Minimum()


def reciprocal(x: Var) -> Var:
    """Return 1 / x, for floating T."""
    return 1 / x
