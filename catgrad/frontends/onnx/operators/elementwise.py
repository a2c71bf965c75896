"""Arithmetic, comparisons, logic and functions of one variable, element by element."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from math import inf, isfinite
from typing import Any

import numpy as np

from catgrad import ops
from catgrad.frontends.onnx.operators.operands import dtype_of, full, literal, together
from catgrad.frontends.onnx.registry import onnx, require
from catgrad.frontends.onnx.types import Value
from catgrad.terms.structural import Constant
from catgrad.terms.var import Var
from catgrad.types import Dtype, NdArrayType


def _xor(x: Var, y: Var) -> Var:
    return (x & ~y) | (~x & y)


def _equal(x: Var, y: Var) -> Var:
    return ~_xor(x, y) if x.dtype is Dtype.bool else x == y


UNARY: dict[str, tuple[Callable[[Var], Var], tuple[int, ...]]] = {
    "Abs": (ops.absolute, (13,)), "Acos": (ops.arccos, (7, 22)), "Acosh": (ops.arcosh, (9, 22)),
    "Asin": (ops.arcsin, (7, 22)), "Asinh": (ops.arsinh, (9, 22)), "Atan": (ops.arctan, (7, 22)),
    "Atanh": (ops.artanh, (9, 22)), "BitwiseNot": (ops.bitwise_not, (18,)),
    "Ceil": (lambda x: -ops.floor(-x), (13,)), "Cos": (ops.cos, (7, 22)), "Cosh": (ops.cosh, (9, 22)),
    "Erf": (ops.erf, (13,)), "Exp": (ops.exp, (13,)), "Floor": (ops.floor, (13,)),
    "Identity": (lambda x: x, (13, 14, 16, 19, 21, 23, 24, 25)), "IsNaN": (ops.is_nan, (13, 20)),
    "Log": (ops.log, (13,)), "Neg": (lambda x: -x, (13,)), "Not": (ops.logical_not, (1,)),
    "Reciprocal": (ops.reciprocal, (13,)), "Round": (ops.round, (11, 22)), "Sign": (ops.sign, (13,)),
    "Sin": (ops.sin, (7, 22)), "Sinh": (ops.sinh, (9, 22)), "Sqrt": (ops.sqrt, (13,)),
    "Tan": (lambda x: ops.sin(x) / ops.cos(x), (7, 22)), "Tanh": (ops.tanh, (13,)),
}  # fmt: skip

BINARY: dict[str, tuple[Callable[[Var, Var], Var], tuple[int, ...]]] = {
    "Add": (ops.add, (13, 14)), "Sub": (ops.subtract, (13, 14)), "Mul": (ops.multiply, (13, 14)),
    "And": (ops.logical_and, (7,)), "Or": (ops.logical_or, (7,)), "Xor": (_xor, (7,)),
    "BitwiseAnd": (ops.bitwise_and, (18,)), "BitwiseOr": (ops.bitwise_or, (18,)),
    "BitwiseXor": (ops.bitwise_xor, (18,)), "Equal": (_equal, (13, 19)),
    "Greater": (ops.greater, (13,)), "GreaterOrEqual": (ops.greater_equal, (12, 16)),
    "Less": (ops.less, (13,)), "LessOrEqual": (ops.less_equal, (12, 16)),
}  # fmt: skip


for _name, (_function, _since) in UNARY.items():
    onnx(_name, since=_since)(_function)
for _name, (_pair, _since) in BINARY.items():
    onnx(_name, since=_since)(lambda x, y, pair=_pair: pair(*together(x, y)))


@onnx("Div", since=(13, 14))
def divide(x: Var, y: Var) -> Var:
    """Quotient, of integers rounded towards 0."""
    x, y = together(x, y)
    if x.dtype.is_floating:
        return x / y
    down = ops.floor_divide(x, y)
    return ops.select((x - down * y != 0) & ((x < 0) != (y < 0)), down + 1, down)


@onnx("Mod", since=(13, 28))
def remainder(x: Var, y: Var, *, fmod: int = 0) -> Var:
    """Return the remainder, with the sign of y for integers, or with that of x."""
    x, y = together(x, y)
    if x.dtype.is_floating:
        require(
            fmod, "a remainder of floats must have the sign of the dividend", "fmod is 0", "set fmod to 1"
        )
        return ops.fmod(x, y)
    rest = ops.remainder(x, y)
    return ops.select((rest != 0) & ((x < 0) != (y < 0)), rest - y, rest) if fmod else rest


@onnx("Pow", since=(13, 15), known="y")
def power(x: Var, y: Value) -> Var:
    """Power: xʸ in the dtype of x, by a simpler operation where there is one."""
    if isinstance(y, np.ndarray):
        own: dict[float, Callable[[Var], Var]] = {1: lambda x: x, 2: ops.square}
        if x.dtype.is_floating:
            own |= {0.5: ops.sqrt, -0.5: ops.rsqrt, -1: ops.reciprocal}
        if y.size == 1 and y.ndim <= x.type.rank and float(y.item()) in own:
            return own[float(y.item())](x)
        y = literal(y)
    common = y.dtype if y.dtype.is_floating and not x.dtype.is_floating else x.dtype
    base, exponent = together(ops.cast(x, common), ops.cast(y, common))
    return ops.cast(ops.power(base, exponent), x.dtype)


def _extremum(name: str, floats: Callable[[Var, Var], Var], wins: Callable[[Var, Var], Var]) -> None:
    def pick(x: Var, y: Var) -> Var:
        return floats(x, y) if x.dtype.is_floating else ops.select(wins(x, y), x, y)

    onnx(name, since=(13,))(lambda *arrays: reduce(pick, together(*arrays)))


_extremum("Max", ops.maximum, lambda x, y: x > y)
_extremum("Min", ops.minimum, lambda x, y: x < y)
onnx("Sum", since=(13,))(lambda *arrays: reduce(ops.add, together(*arrays)))
onnx("Mean", since=(13,))(lambda *arrays: reduce(ops.add, together(*arrays)) / len(arrays))


@onnx("Clip", since=13, known="low high")
def clip(x: Var, low: Value | None = None, high: Value | None = None) -> Var:
    """min(max(x, low), high)."""
    bounds: list[Any] = [float(b.item()) if isinstance(b, np.ndarray) else b for b in (low, high)]
    if x.dtype.is_floating and bounds != [None, None] and _are_ordered(bounds):
        return ops.clamp(x, *bounds)
    if low is not None:
        least = _filled(low, x)
        x = ops.select(x < least, least, x)
    if high is not None:
        most = _filled(high, x)
        x = ops.select(x > most, most, x)
    return x


def _are_ordered(bounds: list[Any]) -> bool:
    """Return whether bounds are numbers, or none, the lower one first."""
    finite = [bound for bound in bounds if isinstance(bound, float) and isfinite(bound)]
    return len(finite) == 2 - bounds.count(None) and finite == sorted(finite)


def _filled(bound: Value, x: Var) -> Var:
    if isinstance(bound, np.ndarray):
        return full(x, bound.item())
    return ops.broadcast(ops.reshape(bound), x.shape)


@onnx("Cast", since=(13, 19, 21, 23, 24, 25, 28))
def cast(x: Var, *, to: int, saturate: int = 1, round_mode: str = "up") -> Var:
    """Convert to another dtype; to a boolean, by x ≠ 0."""
    return _cast(x, dtype_of(to))


@onnx("CastLike", since=(15, 19, 21, 23, 24, 25))
def cast_like(x: Var, y: Var, *, saturate: int = 1, round_mode: str = "up") -> Var:
    """Convert to the dtype of y."""
    return _cast(x, y.dtype)


def _cast(x: Var, dtype: Dtype) -> Var:
    return x != 0 if dtype is Dtype.bool and x.dtype is not Dtype.bool else ops.cast(x, dtype)


@onnx("IsInf", since=(10, 20))
def is_infinite(x: Var, *, detect_negative: int = 1, detect_positive: int = 1) -> Var:
    """Return whether elements are infinite, of one sign or both."""
    positive, negative = x == inf, x == -inf
    if detect_negative and detect_positive:
        return positive | negative
    none = Constant(NdArrayType(x.shape, Dtype.bool), 0)()
    return positive if detect_positive else negative if detect_negative else none


@onnx("BitShift", since=(11, 28))
def shift(x: Var, y: Var, *, direction: str) -> Var:
    """Move bits up or down."""
    return (ops.shift_left if direction == "LEFT" else ops.shift_right)(*together(x, y))


@onnx("Where", since=(9, 16))
def where(condition: Var, x: Var, y: Var) -> Var:
    """Return x where the condition holds, y elsewhere."""
    condition, x, y = together(condition, x, y)
    if x.dtype is Dtype.bool:
        return (condition & x) | (~condition & y)
    return ops.select(condition, x, y)
