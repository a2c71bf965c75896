"""The logarithm of the gamma function, and its derivatives."""

from __future__ import annotations

from fractions import Fraction
from functools import reduce
from math import comb, factorial, inf, pi
from math import log as logarithm
from typing import Any

import numpy as np
from numpy.polynomial import Polynomial

from catgrad.errors import OptionError
from catgrad.ops.arithmetic import absolute, add, floor, round
from catgrad.ops.compare import select
from catgrad.ops.polynomial import chebyshev, polynomial
from catgrad.ops.scalar import SpecialMap
from catgrad.ops.transcendental import cos, log, sin
from catgrad.terms.op import Examples
from catgrad.terms.structural import Constant
from catgrad.terms.var import Var
from catgrad.types import Array, NdArrayType

__all__ = ["digamma", "log_gamma", "polygamma"]

LGAMMA = (
    0.41418612492156676, 0.16322170068760064, -0.008658972394126285, 0.0006727515726001485,
    -6.139556963628233e-05, 6.110065797003576e-06, -6.410003033826223e-07, 6.962242692768951e-08,
    -7.747248733788217e-09, 8.774075140687239e-10, -1.0070266869830198e-10, 1.1678602130652374e-11,
    -1.3656871334744932e-12, 1.6079351149711552e-13, -1.9039501088488732e-14, 2.2653768767833064e-15,
    -2.706656814831896e-16, 3.245660731626191e-17,
)  # fmt: skip
"""Chebyshev series of ln Γ(x) / (x - 2) in 2 (x - 2), for 3/2 ≤ x ≤ 5/2."""
SHIFTS = 6
"""Steps down to that interval; above it Stirling's series is exact enough."""
TERMS = 10
"""Terms of the asymptotic series."""
SINE = tuple((-1) ** k * pi ** (2 * k + 1) / factorial(2 * k + 1) for k in range(12))
"""Taylor's series of sin(π r) / r in r², for |r| ≤ 1/2: unlike sin in Scratch, exact near 0."""


def _bernoulli(count: int) -> list[float]:
    """Return the Bernoulli numbers B₂, B₄, …."""
    numbers = [Fraction(1)]
    for n in range(1, 2 * count + 1):
        total = sum((comb(n + 1, k) * b for k, b in enumerate(numbers)), Fraction(0))
        numbers.append(-total / (n + 1))
    return [float(b) for b in numbers[2::2]]


BERNOULLI = _bernoulli(TERMS)


class LogGamma(SpecialMap):
    """Logarithm of the gamma function: y = ln |Γ(x)|, for floating T.

    Type:     (T) -> T
    Domain:   infinite at 0, -1, -2, …
    Gradient: dx = dy · ψ(x)
    Source:   Abramowitz and Stegun 1964, 6.1.15 (recurrence), 6.1.17 (reflection), 6.1.41 (Stirling)
    """

    domain = (0.3, 6.0)

    def ref(self, x: Array) -> Array:
        from scipy.special import gammaln  # takes longer to import than catgrad does

        return np.where(np.isinf(x), np.abs(x), gammaln(x))

    def body(self, x: Var) -> Var:
        a = absolute(x)
        y = select(a < SHIFTS + 2, _log_gamma(a), _stirling(a))
        r = x - round(x)
        sine = absolute(r * polynomial(r * r, SINE))
        reflected = select(sine > 0, log(pi / sine) - log(a) - y, Constant(x.type, inf)())
        return select(a < inf, select(x < 0, reflected, y), a)

    def rev(self, x: Var, dy: Var) -> Var:
        return dy * Polygamma(0)(x)


class Polygamma(SpecialMap):
    """Derivatives of ln Γ: y = ψ⁽ⁿ⁾(x), the digamma function for order n = 0, for floating T.

    Type:     (T) -> T
    Raises:   OptionError unless n ≥ 0
    Domain:   at 0, -1, -2, … infinite, or NaN for n = 0 and x < 0
    Gradient: dx = dy · ψ⁽ⁿ⁺¹⁾(x)
    Source:   Abramowitz and Stegun 1964, 6.4.6 (recurrence), 6.4.7 (reflection), 6.4.11 (asymptotic)
    """

    order: int = 0
    domain = (0.3, 6.0)

    def __post_init__(self) -> None:
        if self.order < 0:
            raise OptionError("the order must be at least 0", f"it is {self.order}", "choose another")

    def ref(self, x: Array) -> Any:
        from scipy.special import digamma, polygamma

        return digamma(x) if self.order == 0 else polygamma(self.order, x).astype(x.dtype)

    def body(self, x: Var) -> Var:
        n = self.order
        reflected = x < 0
        a = select(reflected, 1 - x, x)
        y = self._above(a)
        angle = pi * (x - round(x))
        cotangent = polynomial(cos(angle) / sin(angle), _derivative_of_cotangent(n)) * pi ** (n + 1)
        y = select(reflected, (-1) ** n * y - cotangent, y)
        if n:
            return y
        return select(reflected & (x == floor(x)), Constant(x.type, np.nan)(), y)

    def rev(self, x: Var, dy: Var) -> Var:
        return dy * Polygamma(self.order + 1)(x)

    def _above(self, x: Var) -> Any:
        """Return the value at x ≥ 0, by recurrence from the asymptotic series."""
        n, steps = self.order, TERMS + self.order
        sign = (-1) ** (n + 1)
        below = reduce(add, (_power(1 / (x + k if k else x), n + 1) for k in range(steps))) * (
            sign * factorial(n)
        )
        inverse = 1 / (x + steps)
        square = inverse * inverse
        if n == 0:
            series = polynomial(square, [-b / (2 * k) for k, b in enumerate(BERNOULLI, 1)])
            return below + log(x + steps) - 0.5 * inverse + square * series
        rising = [b * factorial(2 * k + n - 1) / factorial(2 * k) for k, b in enumerate(BERNOULLI, 1)]
        first = factorial(n - 1) + factorial(n) / 2 * inverse
        return below + sign * (_power(inverse, n) * (first + square * polynomial(square, rising)))

    @classmethod
    def examples(cls) -> Examples:
        return [(cls(n), (NdArrayType(shape),)) for n, shape in ((0, (2, 3)), (2, ()))]


def _log_gamma(x: Var) -> Var:
    """Return ln Γ(x) for small x ≥ 0, by recurrence from the interval of the series, around 2."""
    one = Constant(x.type, 1)()
    low, lower = x < 1.5, x < 0.5
    # Differences are formed so that they are exact near the roots 1 and 2.
    distance = select(low, select(lower, x, x - 1), x - 2)
    above, below = one, select(low, select(lower, x * (x + 1), x), one)
    for _ in range(SHIFTS):
        is_high = distance > 0.5
        above = select(is_high, above * (distance + 1), above)
        distance = select(is_high, distance - 1, distance)
    return distance * chebyshev(2 * distance, LGAMMA) + (log(above) - log(below))


def _stirling(x: Var) -> Var:
    """Return ln Γ(x) for large x."""
    inverse = 1 / x
    series = polynomial(inverse * inverse, [b / (2 * k * (2 * k - 1)) for k, b in enumerate(BERNOULLI, 1)])
    return (x - 0.5) * log(x) - x + (0.5 * logarithm(2 * pi) + inverse * series)


def _power(x: Var, count: int) -> Var:
    """Return the product of `count` factors x."""
    return x if count == 1 else x * _power(x, count - 1)


def _derivative_of_cotangent(order: int) -> list[float]:
    """Return the n-th derivative of cot as coefficients of a polynomial in cot."""
    p, chain = Polynomial([0.0, 1.0]), Polynomial([-1.0, 0.0, -1.0])
    for _ in range(order):
        p = p.deriv() * chain  # type: ignore[no-untyped-call]
    return [float(c) for c in p.coef]


log_gamma, digamma = LogGamma(), Polygamma(0)


def polygamma(order: int, x: Var) -> Var:
    """Return the derivative of order n of the digamma function."""
    return Polygamma(order)(x)
