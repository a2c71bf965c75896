"""Polynomials and Chebyshev series, evaluated by Horner's scheme with as many terms as the dtype needs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from numpy.polynomial.chebyshev import cheb2poly

from catgrad.terms.structural import Constant
from catgrad.terms.var import Var


def polynomial(x: Var, coefficients: Sequence[float]) -> Var:
    """Return Σ cₖ xᵏ, of which c₀ comes first."""
    *rest, last = coefficients
    y = Constant(x.type, last)()
    for coefficient in reversed(rest):
        y = y * x + coefficient
    return y


def chebyshev(x: Var, series: Sequence[float]) -> Var:
    """Return Σ cₖ Tₖ(x) for |x| ≤ 1, without the last terms that add less than half a rounding error.

    The coefficients of powers must not be much larger than those of the series, as they are for functions
    that are analytic far around the interval.
    """
    smallest = abs(series[0]) * float(x.dtype.limits.eps) / 16
    tails = list(accumulate(abs(c) for c in reversed(series)))[::-1]
    kept = [c for c, tail in zip(series, tails, strict=True) if tail > smallest]
    return polynomial(x, [float(c) for c in cheb2poly(kept)])  # type: ignore[no-untyped-call]
