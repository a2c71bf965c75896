"""Compute the Chebyshev series of catgrad/ops: `python tools/fit_chebyshev.py` prints their coefficients.

Each is the interpolant at Chebyshev nodes in 50 digits, cut off where terms are less than 1e-17 of the first.
It needs mpmath, which PyTorch installs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp

Map = Callable[[Any], Any]
mp.mp.dps = 50


def series(f: Map, count: int = 40) -> list[float]:
    """Return the first coefficients of f on -1 ≤ t ≤ 1."""
    nodes = [mp.cos(mp.pi * (k + mp.mpf(1) / 2) / count) for k in range(count)]
    values = [f(t) for t in nodes]
    sums = [
        mp.fsum(y * mp.cos(j * mp.acos(t)) for t, y in zip(nodes, values, strict=True)) for j in range(count)
    ]
    found = [float(total * (1 if j == 0 else 2) / count) for j, total in enumerate(sums)]
    while abs(found[-1]) < 1e-17 * abs(found[0]):
        found.pop()
    return found


def scaled_erfc(t: Any) -> Any:
    """Return (1 + 2 x) e^(x²) erfc x at x = 15/4 · (1 + t) / (1 - t)."""
    x = mp.mpf(15) / 4 * (1 + t) / (1 - t)
    return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)


def bessel(order: int) -> tuple[Map, Map]:
    """Return e⁻ˣ I(x) x⁻ⁿ at x = 4 (t + 1), and √x e⁻ˣ I(x) at x = 16 / (t + 1)."""

    def small(t: Any) -> Any:
        x = 4 * (t + 1)
        return mp.exp(-x) * mp.besseli(order, x) / x**order

    def large(t: Any) -> Any:
        x = 16 / (t + 1)
        return mp.sqrt(x) * mp.exp(-x) * mp.besseli(order, x)

    return small, large


def log_gamma(t: Any) -> Any:
    """Return ln Γ(x) / (x - 2) at x = 2 + t / 2."""
    return mp.loggamma(2 + t / 2) / (t / 2) if t else mp.digamma(2)


FUNCTIONS = {
    "ERFCX": scaled_erfc,
    "I0_SMALL": bessel(0)[0],
    "I0_LARGE": bessel(0)[1],
    "I1_SMALL": bessel(1)[0],
    "I1_LARGE": bessel(1)[1],
    "LGAMMA": log_gamma,
}

if __name__ == "__main__":
    for name, function in FUNCTIONS.items():
        print(name, "=", tuple(series(function)))
