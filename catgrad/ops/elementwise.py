"""Scalar maps, element by element."""

from __future__ import annotations

from typing import Any

import numpy as np

from catgrad.op import INPUTS, NOTHING, OUTPUTS, Op, Saves, Types, floating, numeric
from catgrad.types import Array, NdArrayType


class Add(Op, symbol="+"):
    """Sum: z = x + y.

    Type:     (T, T) -> T
    Gradient: dx = dz, dy = dz
    """

    saves = NOTHING
    result = "total"
    elementwise = commutative = True
    left_unit = right_unit = 0.0

    def type(self, x: NdArrayType, y: NdArrayType) -> Types:
        return numeric(x, y)

    def ref(self, x: Array, y: Array) -> Any:
        return x + y

    def rev(self, dz: Any) -> Any:
        return dz, dz


class Subtract(Op, symbol="-"):
    """Difference: z = x - y.

    Type:     (T, T) -> T
    Gradient: dx = dz, dy = -dz
    """

    saves = NOTHING
    result = "difference"
    elementwise = True
    right_unit = 0.0

    def type(self, x: NdArrayType, y: NdArrayType) -> Types:
        return numeric(x, y)

    def ref(self, x: Array, y: Array) -> Any:
        return x - y

    def rev(self, dz: Any) -> Any:
        return dz, -dz


class Multiply(Op, symbol="*"):
    """Product: z = x · y.

    Type:     (T, T) -> T
    Gradient: dx = dz · y, dy = dz · x
    """

    result = "product"
    elementwise = commutative = True
    left_unit = right_unit = 1.0

    def type(self, x: NdArrayType, y: NdArrayType) -> Types:
        return numeric(x, y)

    def ref(self, x: Array, y: Array) -> Any:
        return x * y

    def rev(self, x: Any, y: Any, dz: Any) -> Any:
        return dz * y, dz * x


class Divide(Op, symbol="/"):
    """Quotient: z = x / y, for floating T.

    Type:     (T, T) -> T
    Domain:   y ≠ 0; elsewhere IEEE 754 infinities and NaN
    Gradient: dx = dz / y, dy = -dz · z / y
    """

    saves = Saves(inputs=(1,), outputs=...)
    result = "quotient"
    elementwise = True
    right_unit = 1.0
    domain = (0.5, 2.0)

    def type(self, x: NdArrayType, y: NdArrayType) -> Types:
        return floating(x, y)

    def ref(self, x: Array, y: Array) -> Any:
        return x / y

    def rev(self, y: Any, z: Any, dz: Any) -> Any:
        dx = dz / y
        return dx, -(dx * z)


class Negate(Op, symbol="neg"):
    """Negative: y = -x.

    Type:     (T) -> T
    Gradient: dx = -dy
    """

    saves = NOTHING
    result = "negative"
    elementwise = involution = True

    def type(self, x: NdArrayType) -> Types:
        return numeric(x)

    def ref(self, x: Array) -> Any:
        return -x

    def rev(self, dy: Any) -> Any:
        return -dy


class Exp(Op):
    """Exponential: y = eˣ, for floating T.

    Type:     (T) -> T
    Gradient: dx = dy · y
    """

    saves = OUTPUTS
    elementwise = True

    def type(self, x: NdArrayType) -> Types:
        return floating(x)

    def ref(self, x: Array) -> Any:
        return np.exp(x)

    def rev(self, y: Any, dy: Any) -> Any:
        return dy * y


class Log(Op):
    """Natural logarithm: y = ln x, for floating T.

    Type:     (T) -> T
    Domain:   x > 0; -inf at 0, NaN below
    Gradient: dx = dy / x
    """

    saves = INPUTS
    elementwise = True
    domain = (0.1, 4.0)

    def type(self, x: NdArrayType) -> Types:
        return floating(x)

    def ref(self, x: Array) -> Any:
        return np.log(x)

    def rev(self, x: Any, dy: Any) -> Any:
        return dy / x


class Tanh(Op):
    """Hyperbolic tangent: y = tanh x, for floating T.

    Type:     (T) -> T, with -1 ≤ y ≤ 1
    Gradient: dx = dy · (1 - y²)
    """

    saves = OUTPUTS
    elementwise = True

    def type(self, x: NdArrayType) -> Types:
        return floating(x)

    def ref(self, x: Array) -> Any:
        return np.tanh(x)

    def rev(self, y: Any, dy: Any) -> Any:
        return dy * (1 - y * y)


class Sqrt(Op):
    """Square root: y = √x, for floating T.

    Type:     (T) -> T
    Domain:   x ≥ 0; NaN below
    Gradient: dx = dy / (2y), infinite at 0
    """

    saves = OUTPUTS
    elementwise = True
    domain = (0.1, 4.0)

    def type(self, x: NdArrayType) -> Types:
        return floating(x)

    def ref(self, x: Array) -> Any:
        return np.sqrt(x)

    def rev(self, y: Any, dy: Any) -> Any:
        return dy / (2 * y)


class Square(Op):
    """Square: y = x².

    Type:     (T) -> T
    Gradient: dx = 2 · dy · x
    """

    elementwise = True

    def type(self, x: NdArrayType) -> Types:
        return numeric(x)

    def ref(self, x: Array) -> Any:
        return x * x

    def body(self, x: Any) -> Any:
        return x * x

    def rev(self, x: Any, dy: Any) -> Any:
        # The factor meets the cotangent first: for a mean it is one number, not an array.
        return (2 * dy) * x


class Sigmoid(Op):
    """Logistic function: y = 1 / (1 + e⁻ˣ), for floating T.

    Type:     (T) -> T, with 0 ≤ y ≤ 1
    Gradient: dx = dy · y · (1 - y)
    """

    saves = OUTPUTS
    elementwise = True

    def type(self, x: NdArrayType) -> Types:
        return floating(x)

    def ref(self, x: Array) -> Any:
        return 1 / (1 + np.exp(-x))

    def body(self, x: Any) -> Any:
        return 1 / (1 + exp(-x))

    def rev(self, y: Any, dy: Any) -> Any:
        return dy * (y * (1 - y))


add, subtract, multiply, divide = Add(), Subtract(), Multiply(), Divide()
negate, exp, log, tanh, sqrt = Negate(), Exp(), Log(), Tanh(), Sqrt()
square, sigmoid = Square(), Sigmoid()
