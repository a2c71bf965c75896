"""Fit erf x ≈ x P(x²) / Q(x²) for |x| ≤ 4: `python tools/fit_erf.py` prints the coefficients, highest first.

The relative error is made even by weights that grow where it is large (Lawson 1961), which is enough for
single precision: 2.5e-8 with degrees 5 and 5.
"""

from __future__ import annotations

import numpy as np
from scipy.special import erf

LIMIT, DEGREE, SWEEPS = 4.0, 5, 60


def fitted() -> tuple[np.ndarray, np.ndarray, float]:
    """Return P and Q, by increasing degree, and the largest relative error."""
    x = LIMIT * np.cos(np.pi * (np.arange(2000) + 0.5) / 4000)
    t, f = (x / LIMIT) ** 2, erf(x) / x
    powers = t[:, None] ** np.arange(DEGREE + 1)
    weights, q, error = np.ones_like(f), np.ones_like(f), f
    for _ in range(SWEEPS):
        scale = (weights / (f * abs(q)))[:, None]
        columns = np.hstack([powers, -f[:, None] * powers[:, 1:]])
        found = np.linalg.lstsq(columns * scale, f * scale[:, 0], rcond=None)[0]
        above, below = found[: DEGREE + 1], np.append(1, found[DEGREE + 1 :])
        q = powers @ below
        error = abs(powers @ above / q / f - 1)
        weights *= 1 + error / error.max()
        weights /= weights.mean()
    scales = LIMIT ** -(2.0 * np.arange(DEGREE + 1))
    return above * scales, below * scales, error.max()


if __name__ == "__main__":
    above, below, error = fitted()
    for p, q in zip(above[::-1], below[::-1], strict=True):
        print(f"{p:.8g} {q:.8g}")
    print(f"relative error {error:.1e}")
