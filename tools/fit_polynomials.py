"""Fit the polynomials of templates/c/math.c.j2: `python tools/fit_polynomials.py` prints their coefficients.

Each is the minimax polynomial of its function for the relative error of what it is used in: weighted least
squares on Chebyshev nodes, whose weights grow where the error is large until it is level (Lawson 1961). The
coefficients are rounded one by one, lowest power first, and those above fitted again.
"""

from __future__ import annotations

import math
from collections.abc import Callable

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


def fit(
    y: Map, weight: Map, low: float, high: float, degree: int, dtype: type[np.floating] = np.float32
) -> list[float]:
    """Coefficients of a polynomial in x near y(x) on low ≤ x ≤ high, lowest power first."""
    nodes = np.cos(np.pi * (np.arange(2000) + 0.5) / 2000)
    x = (low + high) / 2 + (high - low) / 2 * nodes
    powers, rest, kept = np.vander(x, degree + 1, increasing=True), y(x), []
    for k in range(degree + 1):
        c = lawson(powers[:, k:], rest, weight(x))
        kept.append(float(dtype(c[0])))
        rest = rest - kept[-1] * powers[:, k]
    worst = np.max(np.abs(weight(x) * rest))
    print(f"    relative error {worst:.1e} = {worst * 2**24:.2f} · 2⁻²⁴")
    return kept


def show(
    name: str,
    y: Map,
    weight: Map,
    low: float,
    high: float,
    degree: int,
    dtype: type[np.floating] = np.float32,
) -> None:
    """Print a polynomial as the template writes it, highest power first."""
    print(name)
    for c in reversed(fit(y, weight, low, high, degree, dtype)):
        print(f"    {dtype(c)!s}{'f' if dtype is np.float32 else ''}")


def main() -> None:
    """All polynomials."""
    half = math.log(2) / 2 + 1e-3
    show(
        "expm1: (eʳ - 1 - r) / r² in r",
        lambda r: (np.expm1(r) - r) / r**2,
        lambda r: np.abs(r**2 / np.expm1(r)),
        -half,
        half,
        5,
    )
    show(
        "exp: (eʳ - 1 - r) / r² in r",
        lambda r: (np.expm1(r) - r) / r**2,
        lambda r: r**2 / np.exp(r),
        -2 * half,
        2 * half,
        5,
    )
    show(
        "log: (ln(1 + f) - f) / f² in f",
        lambda f: np.where(np.abs(f) < 1e-3, -1 / 2 + f / 3 - f**2 / 4 + f**3 / 5, (np.log1p(f) - f) / f**2),
        lambda f: np.abs(f**2 / np.log1p(f)),
        -1 / 3,
        1 / 3,
        7,
    )
    show(
        "erf below 1: erf(x) / x - 1 in x²",
        lambda s: erf(np.sqrt(s)) / np.sqrt(s) - 1,
        lambda s: np.sqrt(s) / erf(np.sqrt(s)),
        0.0,
        1.0,
        6,
    )
    show(
        "erf above 1: -ln(1 - erf(x)) in x",
        lambda x: -np.log(erfc(x)),
        lambda x: erfc(x) / erf(x),
        0.98,
        4.0,
        6,
    )
    root = math.log(2)
    show(
        "pow: log2((1 + s) / (1 - s)) / s in s², in double",
        lambda z: 2 / root * np.arctanh(np.sqrt(z)) / np.sqrt(z),
        lambda z: root / 2 * np.sqrt(z) / np.arctanh(np.sqrt(z)),
        1e-9,
        0.0402,
        4,
        np.float64,
    )
    show(
        "pow: (2ʳ - 1) / r in r",
        lambda r: np.expm1(r * root) / r,
        lambda r: np.abs(r) / 2**r,
        -0.5005,
        0.5005,
        5,
    )
    quarter = (math.pi / 4 + 3e-3) ** 2
    show(
        "sin: (sin(r) - r) / r³ in r²",
        lambda s: (np.sin(np.sqrt(s)) / np.sqrt(s) - 1) / s,
        lambda s: s * np.sqrt(s) / np.sin(np.sqrt(s)),
        1e-4,
        quarter,
        2,
    )
    show(
        "cos: (cos(r) - 1 + r²/2) / r⁴ in r²",
        lambda s: (np.cos(np.sqrt(s)) - 1 + s / 2) / s**2,
        lambda s: s**2 / np.cos(np.sqrt(s)),
        1e-4,
        quarter,
        2,
    )


if __name__ == "__main__":
    main()
