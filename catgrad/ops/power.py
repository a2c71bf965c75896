"""Powers: of floating-point numbers, and of integers by repeated squaring."""

from __future__ import annotations

from typing import Any

import numpy as np

from catgrad.ops.bits import BitAnd, ShiftRight
from catgrad.ops.compare import select
from catgrad.ops.control import repeat
from catgrad.ops.scalar import FloatMap
from catgrad.ops.transcendental import log, sqrt
from catgrad.ops.whole import IntegerMap
from catgrad.terms.op import SYMBOLS, Saves
from catgrad.terms.structural import Constant, zeros_like
from catgrad.terms.var import Var
from catgrad.types import Array

__all__ = ["power"]


class Power(FloatMap):
    """Power: z = xʸ, for floating T.

    Type:     (T, T) -> T
    Domain:   x > 0, or x = 0 and y ≥ 0, or integer y; elsewhere NaN
    Gradient: dx = dz · y · xʸ⁻¹ (0 where y = 0), dy = dz · z · ln x (0 where x = 0 and y ≥ 0)
    """

    saves = Saves(inputs=..., outputs=...)
    right_unit = 1.0
    domain = (0.5, 2.0)
    costly = True
    ref = np.power

    def rev(self, x: Var, y: Var, z: Var, dz: Var) -> tuple[Var, Var]:
        zero = zeros_like(dz)
        dx = select(y == 0, zero, dz * (y * Power()(x, y - 1)))
        dy = select(x == 0, select(y >= 0, zero, dz * (z * log(x))), dz * (z * log(x)))
        return dx, dy


class IntegerPower(IntegerMap):
    """Power of integers, modulo 2ⁿ for the n bits of T: z = xʸ, for integer T.

    Type:     (T, T) -> T
    Domain:   the bits of y are read as a number that is not negative: for odd x, a negative power is
              that of the inverse of x modulo 2ⁿ, for even x it is 0
    Gradient: dx = dz · y · xʸ⁻¹ (0 where y = 0), dy = 0
    """

    costly = True
    result = "power"

    def ref(self, x: Array, y: Array) -> Array:
        unsigned = np.dtype(f"u{x.dtype.itemsize}")
        return np.power(x.astype(unsigned), y.astype(unsigned)).astype(x.dtype)

    def body(self, x: Var, y: Var) -> Any:
        one = Constant(x.type, 1)()

        def square(result: Var, base: Var, bits: Var) -> tuple[Var, Var, Var]:
            odd = BitAnd()(bits, Constant(bits.type, 1)()) != zeros_like(bits)
            factor = select(odd, base, Constant(base.type, 1)())
            return result * factor, base * base, ShiftRight()(bits, Constant(bits.type, 1)())

        return repeat(square, 8 * x.dtype.itemsize, one, x, y)[0]

    def rev(self, x: Var, y: Var, dz: Var) -> tuple[Var, Var]:
        return select(y == 0, zeros_like(dz), dz * (y * self(x, y - 1))), zeros_like(dz)


def power(x: Var, y: Var) -> Var:
    """xʸ, for two arrays, or for an array and a number."""
    if isinstance(y, int) and y >= 0 and x.dtype.is_integer:
        return _product(x, y)
    if isinstance(y, (int, float)):
        y = Constant(x.type, y)()
    return IntegerPower()(x, y) if x.dtype.is_integer else Power()(x, y)


def root(x: Var, order: float = 2) -> Var:
    """Return the root of this order of x ≥ 0, with the gradient 0 at 0, as norms have (torch.norm)."""
    safe = select(x == 0, Constant(x.type, 1)(), x)
    return select(x == 0, zeros_like(x), sqrt(safe) if order == 2 else safe ** (1 / order))


def _product(x: Var, count: int) -> Var:
    """x · … · x, with as many factors, by squaring."""
    if count < 2:
        return x if count else Constant(x.type, 1)()
    half = _product(x, count // 2)
    return half * half * x if count % 2 else half * half


SYMBOLS["**"] = power
