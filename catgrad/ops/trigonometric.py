"""Inverse trigonometric functions, element by element."""

from __future__ import annotations

from math import inf, pi

import numpy as np

from catgrad.ops.arithmetic import absolute, maximum, minimum
from catgrad.ops.compare import select
from catgrad.ops.polynomial import polynomial
from catgrad.ops.scalar import SpecialMap
from catgrad.ops.transcendental import rsqrt, sqrt
from catgrad.terms.structural import Constant, stop_gradient, zeros_like
from catgrad.terms.var import Var

__all__ = ["arccos", "arcsin", "arctan", "arctan2"]

NUMERATOR = (
    -64.85021904942025,
    -122.88666844901361,
    -75.00855792314705,
    -16.157537187333652,
    -0.8750608600031904,
)
DENOMINATOR = (
    194.5506571482614,
    485.3903996359137,
    432.88106049129027,
    165.02700983169885,
    24.858464901423062,
    1.0,
)
"""(arctan x - x) / x³ as a quotient of polynomials in x², for |x| ≤ 0.66. Source: Cephes, atan.c"""


class ArcTan(SpecialMap):
    """Inverse tangent: y = arctan x, for floating T.

    Type:     (T) -> T, with -π/2 ≤ y ≤ π/2
    Units:    y in radians
    Gradient: dx = dy / (1 + x²)
    Source:   Cephes, atan.c: arctan x = π/4 + arctan((x - 1) / (x + 1)) = π/2 - arctan(1 / x)
    """

    ref = np.arctan

    def body(self, x: Var) -> Var:
        return with_sign(_arctan(absolute(x)), x)

    def rev(self, x: Var, dy: Var) -> Var:
        return dy / (1 + x * x)


class ArcSin(SpecialMap):
    """Inverse sine: y = arcsin x, for floating T.

    Type:     (T) -> T, with -π/2 ≤ y ≤ π/2
    Units:    y in radians
    Domain:   -1 ≤ x ≤ 1; elsewhere NaN
    Gradient: dx = dy / √(1 - x²), infinite at ±1
    """

    domain = (-0.9, 0.9)
    ref = np.arcsin

    def body(self, x: Var) -> Var:
        return arctan2(x, sqrt((1 - x) * (1 + x)))

    def rev(self, x: Var, dy: Var) -> Var:
        return dy * rsqrt((1 - x) * (1 + x))


class ArcCos(SpecialMap):
    """Inverse cosine: y = arccos x, for floating T.

    Type:     (T) -> T, with 0 ≤ y ≤ π
    Units:    y in radians
    Domain:   -1 ≤ x ≤ 1; elsewhere NaN
    Gradient: dx = -dy / √(1 - x²), infinite at ±1
    """

    domain = (-0.9, 0.9)
    ref = np.arccos

    def body(self, x: Var) -> Var:
        return arctan2(sqrt((1 - x) * (1 + x)), x)

    def rev(self, x: Var, dy: Var) -> Var:
        return -(dy * rsqrt((1 - x) * (1 + x)))


class ArcTan2(SpecialMap):
    """Angle of the point (x, y): z = arg(x + i y), for floating T.

    Type:     (T, T) -> T for y and x, with -π ≤ z ≤ π
    Units:    z in radians
    Domain:   0 or ±π at (±0, ±0), by their signs, as IEEE 754 recommends
    Gradient: dy = dz · x / (x² + y²), dx = -dz · y / (x² + y²); 0 where both are 0 (as torch.atan2)
    """

    domain = (0.5, 2.0)
    ref = np.arctan2

    def body(self, y: Var, x: Var) -> Var:
        long, wide = absolute(y), absolute(x)
        one = Constant(x.type, 1)()
        greatest = maximum(long, wide)
        ratio = select(long == wide, one, minimum(long, wide) / greatest)
        angle = _arctan(select(greatest == 0, zeros_like(x), ratio))
        angle = select(long > wide, pi / 2 - angle, angle)
        return with_sign(select(is_negative(x), pi - angle, angle), y)

    def rev(self, y: Var, x: Var, dz: Var) -> tuple[Var, Var]:
        scale = common_scale(x, y)
        a, b = x / scale, y / scale
        squares = a * a + b * b
        share = dz / scale / select(squares == 0, Constant(x.type, 1)(), squares)
        return share * a, -(share * b)


def common_scale(x: Var, y: Var) -> Var:
    """Return max(|x|, |y|) as a constant, by which both may be divided: 1 where it is 0 or not finite."""
    longest = stop_gradient(maximum(absolute(x), absolute(y)))
    return select((longest > 0) & (longest < inf), longest, Constant(x.type, 1)())


def _arctan(x: Var) -> Var:
    """Return arctan x for x ≥ 0."""
    zero, one = zeros_like(x), Constant(x.type, 1)()
    far, near = x > 2.414213562373095, x > 0.66
    begin = select(far, zero + pi / 2, select(near, zero + pi / 4, zero))
    t = select(far, -one, select(near, x - 1, x)) / select(far, x, select(near, x + 1, one))
    s = t * t
    return begin + (t + t * (s * (polynomial(s, NUMERATOR) / polynomial(s, DENOMINATOR))))


def is_negative(x: Var) -> Var:
    """Return whether the sign of x is negative, which that of -0 is."""
    x = stop_gradient(x)  # the slope of 1 / x is infinite where it is read
    return (x < 0) | ((x == 0) & (1 / x < 0))


def with_sign(x: Var, like: Var) -> Var:
    """Return x ≥ 0 with the sign of another number."""
    return select(is_negative(like), -x, x)


arctan, arcsin, arccos, arctan2 = ArcTan(), ArcSin(), ArcCos(), ArcTan2()
