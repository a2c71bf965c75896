"""Exponentials, logarithms and their kin, element by element."""

from __future__ import annotations

from math import pi
from math import sqrt as square_root
from typing import Any

import numpy as np

from catgrad.ops.scalar import FloatMap
from catgrad.terms.op import INPUTS, OUTPUTS
from catgrad.terms.var import Var
from catgrad.types import Array

__all__ = ["cos", "erf", "exp", "expm1", "log", "log1p", "rsqrt", "sin", "sqrt", "tanh"]


class Exp(FloatMap):
    """Exponential: y = eˣ, for floating T.

    Type:     (T) -> T
    Gradient: dx = dy · y
    """

    saves = OUTPUTS
    rounds_once = True
    costly = True
    ref = np.exp

    def rev(self, y: Var, dy: Var) -> Var:
        return dy * y


class Log(FloatMap):
    """Natural logarithm: y = ln x, for floating T.

    Type:     (T) -> T
    Domain:   x > 0; -inf at 0, NaN below
    Gradient: dx = dy / x
    """

    saves = INPUTS
    rounds_once = True
    domain = (0.1, 4.0)
    costly = True
    ref = np.log

    def rev(self, x: Var, dy: Var) -> Var:
        return dy / x


class Log1p(FloatMap):
    """Logarithm of one more: y = ln(1 + x), exact for small x, for floating T.

    Type:     (T) -> T
    Domain:   x > -1; -inf at -1, NaN below
    Gradient: dx = dy / (1 + x)
    """

    saves = INPUTS
    domain = (-0.5, 4.0)
    costly = True
    ref = np.log1p

    def rev(self, x: Var, dy: Var) -> Var:
        return dy / (1 + x)


class Expm1(FloatMap):
    """Exponential less one: y = eˣ - 1, exact for small x, for floating T.

    Type:     (T) -> T, with y ≥ -1
    Gradient: dx = dy · (y + 1)
    """

    saves = OUTPUTS
    costly = True
    ref = np.expm1

    def rev(self, y: Var, dy: Var) -> Var:
        return dy * (y + 1)


class Sqrt(FloatMap):
    """Square root: y = √x, for floating T.

    Type:     (T) -> T
    Domain:   x ≥ 0; NaN below
    Gradient: dx = dy / (2y), infinite at 0
    """

    saves = OUTPUTS
    domain = (0.1, 4.0)
    costly = True
    ref = np.sqrt

    def rev(self, y: Var, dy: Var) -> Var:
        return dy / (2 * y)


class Rsqrt(FloatMap):
    """Reciprocal of the square root: y = 1 / √x, for floating T.

    Type:     (T) -> T
    Domain:   x > 0; infinite at 0, NaN below
    Gradient: dx = -dy · y³ / 2
    """

    saves = OUTPUTS
    domain = (0.1, 4.0)

    def ref(self, x: Array) -> Array:
        return 1 / np.sqrt(x)

    def body(self, x: Var) -> Var:
        return 1 / sqrt(x)

    def rev(self, y: Var, dy: Var) -> Var:
        return (-0.5 * dy) * (y * y * y)


class Sin(FloatMap):
    """Sine: y = sin x, for floating T.

    Type:     (T) -> T, with -1 ≤ y ≤ 1
    Units:    x in radians
    Gradient: dx = dy · cos x
    """

    saves = INPUTS
    costly = True
    ref = np.sin

    def rev(self, x: Var, dy: Var) -> Var:
        return dy * cos(x)


class Cos(FloatMap):
    """Cosine: y = cos x, for floating T.

    Type:     (T) -> T, with -1 ≤ y ≤ 1
    Units:    x in radians
    Gradient: dx = -dy · sin x
    """

    saves = INPUTS
    costly = True
    ref = np.cos

    def rev(self, x: Var, dy: Var) -> Var:
        return -(dy * sin(x))


class Tanh(FloatMap):
    """Hyperbolic tangent: y = tanh x, for floating T.

    Type:     (T) -> T, with -1 ≤ y ≤ 1
    Gradient: dx = dy · (1 - y²)
    """

    saves = OUTPUTS
    costly = True
    ref = np.tanh

    def rev(self, y: Var, dy: Var) -> Var:
        return dy * (1 - y * y)


class Erf(FloatMap):
    """Error function: y = 2/√π · ∫₀ˣ e^(-t²) dt, for floating T.

    Type:     (T) -> T, with -1 ≤ y ≤ 1
    Gradient: dx = dy · 2/√π · e^(-x²)
    """

    saves = INPUTS
    costly = True

    def ref(self, x: Array) -> Any:
        from scipy.special import erf  # takes longer to import than catgrad does

        return erf(x)

    def rev(self, x: Var, dy: Var) -> Var:
        return dy * (2 / square_root(pi) * exp(-(x * x)))


exp, log, log1p, expm1, sqrt, rsqrt = Exp(), Log(), Log1p(), Expm1(), Sqrt(), Rsqrt()
sin, cos, tanh, erf = Sin(), Cos(), Tanh(), Erf()
