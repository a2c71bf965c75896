"""Hyperbolic functions and their inverses, element by element."""

from __future__ import annotations

from math import log as logarithm

import numpy as np

from catgrad.ops.arithmetic import absolute, minimum, sign
from catgrad.ops.compare import select
from catgrad.ops.scalar import SpecialMap
from catgrad.ops.transcendental import exp, expm1, log, log1p, rsqrt, sqrt
from catgrad.terms.structural import Constant
from catgrad.terms.var import Var

__all__ = ["arcosh", "arsinh", "artanh", "cosh", "sinh"]

LARGE = 1e6
"""The least number for which √(x² + 1) and √(x² - 1) are read as x."""


class Sinh(SpecialMap):
    """Hyperbolic sine: y = (eˣ - e⁻ˣ) / 2, for floating T.

    Type:     (T) -> T
    Gradient: dx = dy · cosh x
    """

    ref = np.sinh

    def body(self, x: Var) -> Var:
        a = absolute(x)
        grown = expm1(minimum(a, Constant(x.type, 30)()))
        half = exp(0.5 * a)  # its square overflows only where sinh does
        return sign(x) * select(a < 30, 0.5 * (grown + grown / (grown + 1)), (0.5 * half) * half)

    def rev(self, x: Var, dy: Var) -> Var:
        return dy * cosh(x)


class Cosh(SpecialMap):
    """Hyperbolic cosine: y = (eˣ + e⁻ˣ) / 2, for floating T.

    Type:     (T) -> T, with y ≥ 1
    Gradient: dx = dy · sinh x
    """

    ref = np.cosh

    def body(self, x: Var) -> Var:
        half = exp(0.5 * absolute(x))  # its square overflows only where cosh does
        return (0.5 * half) * half + (0.5 / half) / half

    def rev(self, x: Var, dy: Var) -> Var:
        return dy * sinh(x)


class ArSinh(SpecialMap):
    """Inverse hyperbolic sine: y = arsinh x = ln(x + √(x² + 1)), for floating T.

    Type:     (T) -> T
    Gradient: dx = dy / √(x² + 1)
    """

    ref = np.arcsinh

    def body(self, x: Var) -> Var:
        a = absolute(x)
        s = minimum(a, Constant(x.type, LARGE)())
        y = select(a < LARGE, log1p(s + s * s / (1 + sqrt(1 + s * s))), log(a) + logarithm(2))
        return sign(x) * y

    def rev(self, x: Var, dy: Var) -> Var:
        return dy * rsqrt(x * x + 1)


class ArCosh(SpecialMap):
    """Inverse hyperbolic cosine: y = arcosh x = ln(x + √(x² - 1)), for floating T.

    Type:     (T) -> T, with y ≥ 0
    Domain:   x ≥ 1; NaN below
    Gradient: dx = dy / √(x² - 1), infinite at 1
    """

    domain = (1.1, 4.0)
    ref = np.arccosh

    def body(self, x: Var) -> Var:
        t = minimum(x, Constant(x.type, LARGE)()) - 1
        return select(x < LARGE, log1p(t + sqrt(t) * sqrt(2 + t)), log(x) + logarithm(2))

    def rev(self, x: Var, dy: Var) -> Var:
        return dy * rsqrt((x - 1) * (x + 1))


class ArTanh(SpecialMap):
    """Inverse hyperbolic tangent: y = artanh x = ln((1 + x) / (1 - x)) / 2, for floating T.

    Type:     (T) -> T
    Domain:   -1 < x < 1; infinite at ±1, elsewhere NaN
    Gradient: dx = dy / (1 - x²)
    """

    domain = (-0.8, 0.8)
    ref = np.arctanh

    def body(self, x: Var) -> Var:
        a = absolute(x)
        return sign(x) * (0.5 * log1p(2 * a / (1 - a)))

    def rev(self, x: Var, dy: Var) -> Var:
        return dy / ((1 - x) * (1 + x))


sinh, cosh, arsinh, arcosh, artanh = Sinh(), Cosh(), ArSinh(), ArCosh(), ArTanh()
