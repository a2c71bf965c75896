"""Fit the polynomials of templates/c/math.c.j2: `python tools/fit_polynomials.py` prints their coefficients.

Each is the minimax polynomial of its function for the relative error of what it is used in: weighted least
squares on Chebyshev nodes, whose weights grow where the error is large until it is level (Lawson 1961). The
coefficients are rounded one by one, lowest power first, and those above fitted again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Map = Callable[[np.ndarray], np.ndarray]
erf, erfc = np.vectorize(math.erf), np.vectorize(math.erfc)


def lawson(powers: np.ndarray, y: np.ndarray, weight: np.ndarray, rounds: int = 300) -> np.ndarray:
    """The c for which max |weight · (powers c - y)| is least."""
    level = np.ones_like(y)
    for _ in range(rounds):
        scale = np.sqrt(level) * weight
        c = np.linalg.lstsq(powers * scale[:, None], y * scale, rcond=None)[0]
        error = np.abs(weight * (powers @ c - y))
        level *= error
        level /= level.sum()
    return c


@dataclass(frozen=True)
class Polynomial:
    """A polynomial of a degree near a function on an interval, with the weight of its error."""

    name: str
    function: Map
    weight: Map
    low: float
    high: float
    degree: int
    dtype: type[np.floating] = np.float32

    def fit(self) -> list[float]:
        """Find the coefficients, lowest power first, and print the greatest error."""
        nodes = np.cos(np.pi * (np.arange(2000) + 0.5) / 2000)
        x = (self.low + self.high) / 2 + (self.high - self.low) / 2 * nodes
        powers, rest, kept = np.vander(x, self.degree + 1, increasing=True), self.function(x), []
        for k in range(self.degree + 1):
            c = lawson(powers[:, k:], rest, self.weight(x))
            kept.append(float(self.dtype(c[0])))
            rest = rest - kept[-1] * powers[:, k]
        worst = np.max(np.abs(self.weight(x) * rest))
        print(f"    relative error {worst:.1e} = {worst * 2**24:.2f} · 2⁻²⁴")
        return kept

    def show(self) -> None:
        """Print its coefficients, highest power first."""
        print(self.name)
        for c in reversed(self.fit()):
            print(f"    {self.dtype(c)!s}{'f' if self.dtype is np.float32 else ''}")


LN2 = math.log(2)
HALF = LN2 / 2 + 1e-3
QUARTER = (math.pi / 4 + 3e-3) ** 2

POLYNOMIALS = (
    Polynomial(
        "expm1: (eʳ - 1 - r) / r² in r",
        lambda r: (np.expm1(r) - r) / r**2,
        lambda r: np.abs(r**2 / np.expm1(r)),
        -HALF,
        HALF,
        5,
    ),
    Polynomial(
        "exp: (eʳ - 1 - r) / r² in r",
        lambda r: (np.expm1(r) - r) / r**2,
        lambda r: r**2 / np.exp(r),
        -2 * HALF,
        2 * HALF,
        5,
    ),
    Polynomial(
        "log: (ln(1 + f) - f) / f² in f",
        lambda f: np.where(np.abs(f) < 1e-3, -1 / 2 + f / 3 - f**2 / 4 + f**3 / 5, (np.log1p(f) - f) / f**2),
        lambda f: np.abs(f**2 / np.log1p(f)),
        -1 / 3,
        1 / 3,
        7,
    ),
    Polynomial(
        "erf below 1: erf(x) / x - 1 in x²",
        lambda s: erf(np.sqrt(s)) / np.sqrt(s) - 1,
        lambda s: np.sqrt(s) / erf(np.sqrt(s)),
        0.0,
        1.0,
        6,
    ),
    Polynomial(
        "erf above 1: -ln(1 - erf(x)) in x",
        lambda x: -np.log(erfc(x)),
        lambda x: erfc(x) / erf(x),
        0.98,
        4.0,
        6,
    ),
    Polynomial(
        "pow: log2(1 + f) / f in f, in double",
        lambda f: np.log1p(f) / f / LN2,
        lambda f: np.abs(LN2 * f / np.log1p(f)),
        -1 / 3,
        1 / 3,
        11,
        np.float64,
    ),
    Polynomial(
        "pow: (2ʳ - 1) / r in r",
        lambda r: np.expm1(r * LN2) / r,
        lambda r: np.abs(r) / 2**r,
        -0.5005,
        0.5005,
        5,
    ),
    Polynomial(
        "sin: (sin(r) - r) / r³ in r²",
        lambda s: (np.sin(np.sqrt(s)) / np.sqrt(s) - 1) / s,
        lambda s: s * np.sqrt(s) / np.sin(np.sqrt(s)),
        1e-4,
        QUARTER,
        2,
    ),
    Polynomial(
        "cos: (cos(r) - 1 + r²/2) / r⁴ in r²",
        lambda s: (np.cos(np.sqrt(s)) - 1 + s / 2) / s**2,
        lambda s: s**2 / np.cos(np.sqrt(s)),
        1e-4,
        QUARTER,
        2,
    ),
)


if __name__ == "__main__":
    for polynomial in POLYNOMIALS:
        polynomial.show()
