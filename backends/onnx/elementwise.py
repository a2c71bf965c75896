"""Operations on elements."""

from __future__ import annotations

from math import factorial, pi, sqrt
from typing import Any

import numpy as np

from catgrad import ops
from catgrad.ops.cast import Cast
from catgrad.ops.compare import Comparison, Select
from catgrad.ops.polynomial import polynomial
from catgrad.ops.transcendental import Log1p
from catgrad.terms.op import Op
from catgrad.terms.structural import Constant
from catgrad.types import Dtype

from .compute import inlined
from .graph import Graph, Value
from .rules import emits, one_operator, same_name

same_name(
    "Abs", "Add", "And", "Cos", "Exp", "Floor", "Log", "Not", "Or", "Round", "Sigmoid", "Sin", "Sqrt", "Tanh",
    Subtract="Sub", Multiply="Mul", Negate="Neg", Equal="Equal", BitAnd="BitwiseAnd", Power="Pow",
    Relu="Relu", Divide="Div", Maximum="Max", Minimum="Min", IsNan="IsNaN",
)  # fmt: skip
one_operator(lambda op: {"fmod": 1}, Fmod="Mod")


ERF = [2 / sqrt(pi) * (-1) ** n / (factorial(n) * (2 * n + 1)) for n in range(24)]
"""The Taylor series of erf x / x in x², which float64 needs up to 1."""


@emits("Erf")
def error_function(g: Graph, op: Op, x: Value) -> str:
    """Error function; of float64 by its series and erfc, as ONNX Runtime lacks it on a CPU."""
    return inlined(g, _error_function, x) if x.dtype is Dtype.float64 else g.add("Erf", x)


def _error_function(x: Any) -> Any:
    near = ops.minimum(ops.absolute(x), Constant(x.type, 1)())
    series = x * polynomial(near * near, ERF)
    return ops.select(ops.absolute(x) < 1, series, ops.sign(x) * (1 - ops.erfc(ops.absolute(x))))


def _greater(name: str, operator: str, of_truths: str, is_swapped: bool) -> None:
    @emits(name)
    def compared(g: Graph, op: Comparison, *operands: Value) -> str:
        """An order, of truth values by And or Or with a complement: ONNX orders numbers alone."""
        if operands[0].dtype is not Dtype.bool:
            return g.add(operator, *operands)
        x, y = operands[::-1] if is_swapped else operands
        return g.add(of_truths, x, g.add("Not", y))


_greater("Greater", "Greater", "And", False)
_greater("GreaterEqual", "GreaterOrEqual", "Or", False)
_greater("Less", "Less", "And", True)
_greater("LessEqual", "LessOrEqual", "Or", True)


@emits("NotEqual")
def not_equal(g: Graph, op: Op, x: Value, y: Value) -> str:
    """x ≠ y."""
    return g.add("Not", g.add("Equal", x, y))


@emits("Sign")
def sign(g: Graph, op: Op, x: Value) -> str:
    """Sign, which of NaN is NaN."""
    y = g.add("Sign", x)
    return g.add("Where", g.add("IsNaN", x), x, y) if x.dtype.is_floating else y


@emits("Select")
def select(g: Graph, op: Select, condition: Value, x: Value, y: Value) -> str:
    """Choice by a condition; of truth values as numbers, as ONNX Runtime lacks it on a CPU."""
    if x.dtype is not Dtype.bool:
        return g.add("Where", condition, x, y)
    numbers = (g.cast(each, Dtype.int32) for each in (x, y))
    return g.cast(g.add("Where", condition, *numbers), Dtype.bool)


@emits("Log1p")
def log1p(g: Graph, op: Log1p, x: Value) -> str:
    """ln(1 + x) as x · ln u / (u - 1) for u = 1 + x, whose rounding cancels; x where u is 1 or infinite.

    Source: Goldberg 1991, What every computer scientist should know, theorem 4
    """
    one = g.like(x, 1)
    u = g.add("Add", x, one)
    logarithm, rounded = g.add("Log", u), g.add("Sub", u, one)
    y = g.add("Mul", x, g.add("Div", logarithm, rounded))
    small = g.add("Where", g.add("Equal", u, one), x, y)
    return g.add("Where", g.add("IsInf", u), logarithm, small)


@emits("Expm1")
def expm1(g: Graph, op: Op, x: Value) -> str:
    """eˣ - 1 as (u - 1) · x / ln u for u = eˣ; x where u is 1, u - 1 where ln u is infinite.

    Source: Higham 2002, Accuracy and stability of numerical algorithms, section 1.14.1
    """
    one = g.like(x, 1)
    u = g.add("Exp", x)
    rounded, logarithm = g.add("Sub", u, one), g.add("Log", u)
    y = g.add("Mul", rounded, g.add("Div", x, logarithm))
    small = g.add("Where", g.add("Equal", u, one), x, y)
    return g.add("Where", g.add("IsInf", logarithm), rounded, small)


@emits("Cast")
def cast(g: Graph, op: Cast, x: Value) -> str:
    """Conversion to another dtype."""
    return g.cast(x, op.after)


@emits("CastToInteger")
def saturated(g: Graph, op: Any, x: Value) -> str:
    """Conversion of floats to integers, which saturate; NaN becomes 0."""
    limits = np.iinfo(op.after.numpy)
    low, high = float(limits.min), float(limits.max) + (limits.bits < 64)
    above, below = g.add("GreaterOrEqual", x, g.like(x, high)), g.add("LessOrEqual", x, g.like(x, low))
    outside = g.add("Or", g.add("Or", above, below), g.add("IsNaN", x))
    inside = g.cast(g.add("Where", outside, g.like(x, 0), x), op.after)
    inside = g.add("Where", above, g.constant(limits.max, op.after), inside)
    return g.add("Where", below, g.constant(limits.min, op.after), inside)


def _safe(g: Graph, y: Value) -> tuple[str, str, str]:
    """Return whether a divisor is 0 and -1, and 1 in place of both, by which processors cannot divide."""
    is_zero, is_negative = g.add("Equal", y, g.like(y, 0)), g.add("Equal", y, g.like(y, -1))
    return is_zero, is_negative, g.add("Where", g.add("Or", is_zero, is_negative), g.like(y, 1), y)


@emits("Remainder")
def remainder(g: Graph, op: Op, x: Value, y: Value) -> str:
    """Remainder of integers with the sign of y; 0 for y = 0."""
    return g.add("Mod", x, _safe(g, y)[2])


@emits("FloorDivide")
def floor_divide(g: Graph, op: Op, x: Value, y: Value) -> str:
    """Quotient of integers, rounded down; 0 for y = 0."""
    is_zero, is_negative, divisor = _safe(g, y)
    rest, zero = g.add("Mod", x, divisor, fmod=1), g.like(x, 0)
    signs = g.add("Xor", g.add("Less", rest, zero), g.add("Less", divisor, zero))
    is_above = g.add("And", g.add("Not", g.add("Equal", rest, zero)), signs)
    down = g.add("Sub", g.add("Div", x, divisor), g.cast(is_above, x.dtype))
    return g.add("Where", is_zero, g.like(y, 0), g.add("Where", is_negative, g.add("Neg", x), down))


def unsigned(g: Graph, x: str, dtype: Dtype) -> str:
    """Return the bits of an integer as an unsigned one."""
    return g.add("Cast", x, to=13 if dtype is Dtype.int64 else 12)


def moved(g: Graph, x: str, y: str, dtype: Dtype, direction: str) -> str:
    """Move bits, with zeros in their places."""
    operands = (unsigned(g, each, dtype) for each in (x, y))
    return g.cast(g.add("BitShift", *operands, direction=direction), dtype)


def _within(g: Graph, y: Value) -> tuple[str, str]:
    """Return whether a distance is less than the number of bits, and the distance, or 0."""
    bits = 8 * y.dtype.itemsize
    negative, large = g.add("Less", y, g.like(y, 0)), g.add("GreaterOrEqual", y, g.like(y, bits))
    outside = g.add("Or", negative, large)
    return outside, g.add("Where", outside, g.like(y, 0), y)


@emits("ShiftLeft")
def shift_left(g: Graph, op: Op, x: Value, y: Value) -> str:
    """Bits moved up."""
    outside, distance = _within(g, y)
    return g.add("Where", outside, g.like(x, 0), moved(g, x, distance, x.dtype, "LEFT"))


@emits("ShiftRight")
def shift_right(g: Graph, op: Op, x: Value, y: Value) -> str:
    """Bits moved down, those of negative numbers by their complement."""
    outside, distance = _within(g, y)
    negative = g.add("Less", x, g.like(x, 0))
    positive = g.add("Where", negative, g.add("BitwiseNot", x), x)
    shifted = g.add("Where", outside, g.like(x, 0), moved(g, positive, distance, x.dtype, "RIGHT"))
    return g.add("Where", negative, g.add("BitwiseNot", shifted), shifted)
