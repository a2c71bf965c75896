"""The complementary error function, scaled or not, and the inverses of both error functions."""

from __future__ import annotations

from math import inf, pi
from math import sqrt as square_root
from typing import Any

from catgrad.ops.arithmetic import absolute, maximum, minimum, round, sign
from catgrad.ops.compare import select
from catgrad.ops.polynomial import chebyshev, polynomial
from catgrad.ops.scalar import SpecialMap
from catgrad.ops.transcendental import erf, exp, log, sqrt
from catgrad.terms.op import OUTPUTS
from catgrad.terms.structural import Constant, zeros_like
from catgrad.terms.var import Var
from catgrad.types import Array

__all__ = ["erfc", "erfcx", "erfinv", "normal_quantile"]

ERFCX = (
    1.1775789345674017, -0.004590054580646478, -0.08424913336651792, 0.05920993999819189,
    -0.026658668435305753, 0.009074997670705265, -0.002413163540417608, 0.0004907758365258086,
    -6.916973302501207e-05, 4.13902798607301e-06, 7.74038306619849e-07, -2.1886401049234397e-07,
    1.076499946567091e-08, 4.521959811218287e-09, -7.754400208831351e-10, -6.318088340886684e-11,
    2.86879501093067e-11, 1.9455868545777347e-13, -9.65469674843344e-13, 3.25254814814874e-14,
    3.3478119482868056e-14, -1.864562880419313e-15, -1.2507950530688648e-15, 7.418235256624044e-17,
    5.068148904796111e-17,
)  # fmt: skip
"""Chebyshev series of (1 + 2 x) e^(x²) erfc x in (x - 15/4) / (x + 15/4), for x ≥ 0.

Source: Shepherd and Laframboise 1981, Chebyshev approximation of (1 + 2x) exp(x²) erfc x
"""
CENTRE = (
    (0.886226899, -1.645349621, 0.914624893, -0.140543331),
    (1.0, -2.118377725, 1.442710462, -0.329097515, 0.012229801),
)
TAIL = ((-1.970840454, -1.624906493, 3.429567803, 1.641345311), (1.0, 3.543889200, 1.637067800))
"""Quotients of polynomials that begin the iterations for erf⁻¹. Source: calc_erfinv of PyTorch"""


class Erfc(SpecialMap):
    """Complementary error function: y = 1 - erf x, without cancellation, for floating T.

    Type:     (T) -> T, with 0 ≤ y ≤ 2
    Gradient: dx = -dy · 2/√π · e^(-x²)
    """

    def ref(self, x: Array) -> Any:
        from scipy.special import erfc  # takes longer to import than catgrad does

        return erfc(x)

    def body(self, x: Var) -> Var:
        a = minimum(absolute(x), Constant(x.type, 30)())  # e^(-900) is 0
        tail = _erfcx(a) * _gaussian(a)
        return select(x < 0, 2 - tail, tail)

    def rev(self, x: Var, dy: Var) -> Var:
        return dy * (-2 / square_root(pi) * exp(-(x * x)))


class Erfcx(SpecialMap):
    """Scaled complementary error function: y = e^(x²) (1 - erf x), for floating T.

    Type:     (T) -> T, with y ≥ 0
    Gradient: dx = dy · (2 x y - 2/√π)
    """

    def ref(self, x: Array) -> Any:
        from scipy.special import erfcx

        return erfcx(x)

    def body(self, x: Var) -> Var:
        tail = _erfcx(absolute(x))
        below = maximum(minimum(x, zeros_like(x)), Constant(x.type, -30)())  # 1 / e^(-900) is infinite
        return select(x < 0, 2 / _gaussian(below) - tail, tail)

    def rev(self, x: Var, dy: Var) -> Var:
        return dy * (2 * (x * self(x)) - 2 / square_root(pi))


class ErfInv(SpecialMap):
    """Inverse error function: erf y = x, for floating T.

    Type:     (T) -> T
    Domain:   -1 < x < 1; infinite at ±1, elsewhere NaN
    Gradient: dx = dy · √π/2 · e^(y²)
    """

    saves = OUTPUTS
    domain = (-0.9, 0.9)

    def ref(self, x: Array) -> Any:
        from scipy.special import erfinv

        return erfinv(x)

    def body(self, x: Var) -> Var:
        return _inverse(x, 1 - absolute(x))

    def rev(self, y: Var, dy: Var) -> Var:
        return dy * (square_root(pi) / 2 * exp(y * y))


class NormalQuantile(SpecialMap):
    """Quantile of the normal distribution: Φ(y) = x, for floating T.

    Type:     (T) -> T
    Domain:   0 < x < 1; infinite at 0 and 1, elsewhere NaN
    Gradient: dx = dy · √(2π) · e^(y²/2)
    """

    saves = OUTPUTS
    domain = (0.05, 0.95)

    def ref(self, x: Array) -> Any:
        from scipy.special import ndtri

        return ndtri(x)

    def body(self, x: Var) -> Var:
        return square_root(2) * _inverse(2 * x - 1, 2 * minimum(x, 1 - x))

    def rev(self, y: Var, dy: Var) -> Var:
        return dy * (square_root(2 * pi) * exp(0.5 * (y * y)))


def _erfcx(x: Var) -> Var:
    """Return e^(x²) erfc x for x ≥ 0."""
    return chebyshev(1 - 7.5 / (x + 3.75), ERFCX) / (1 + 2 * x)


def _gaussian(x: Var) -> Var:
    """Return e^(-x²), where x is split so that the square of its first bits is exact."""
    first = round(x * 16) * 0.0625
    return exp(-(first * first)) * exp(-((x - first) * (x + first)))


def _inverse(x: Var, tail: Var) -> Var:
    """Return y with erf y = x, given tail = 1 - |x|, by two of Halley's iterations.

    In the tail these solve for log erfc y, which is nearly a square.
    """
    s = x * x
    centre = x * (polynomial(s, CENTRE[0]) / polynomial(s, CENTRE[1]))
    is_central = absolute(x) <= 0.7
    root = sqrt(-log(0.5 * select(is_central, Constant(x.type, 1)(), tail)))
    y = select(is_central, absolute(centre), polynomial(root, TAIL[0]) / polynomial(root, TAIL[1]))
    for _ in range(2):
        scaled = _erfcx(y)
        error = (erf(y) - absolute(x)) * exp(y * y)
        of_logarithm = (log(tail) + y * y - log(scaled)) * scaled
        newton = select(is_central, error, of_logarithm) * (square_root(pi) / 2)
        slope = y - select(is_central, zeros_like(y), 1 / (square_root(pi) * scaled))
        y = y - newton / (1 + slope * newton)
    infinite = Constant(x.type, inf)()
    return sign(x) * select(tail == 0, infinite, y)


erfc, erfcx, erfinv, normal_quantile = Erfc(), Erfcx(), ErfInv(), NormalQuantile()
