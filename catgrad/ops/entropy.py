"""Entropies of probabilities, with the gradients of PyTorch at the probabilities 0 and 1."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from catgrad.ops.arithmetic import maximum
from catgrad.ops.compare import select
from catgrad.ops.scalar import SpecialMap
from catgrad.ops.transcendental import log
from catgrad.terms.structural import Constant
from catgrad.terms.var import Var
from catgrad.types import Array

__all__ = ["binary_cross_entropy", "entropy"]

LEAST_LOGARITHM = -100.0
"""The logarithm that cross entropy reads for that of 0. Source: torch.nn.BCELoss"""
LEAST_VARIANCE = float(np.float32(1e-12))
"""The least x (1 - x) by which its gradient divides. Source: EPSILON in PyTorch's Loss.cpp, a float32"""


class Entropy(SpecialMap):
    """Entropy of one probability: y = -x ln x, for floating T.

    Type:     (T) -> T
    Domain:   x ≥ 0; 0 at 0, -∞ below
    Gradient: dx = -dy · (ln x + 1), infinite at 0
    """

    domain = (0.1, 4.0)

    def ref(self, x: Array) -> Any:
        from scipy.special import entr  # takes longer to import than catgrad does

        return entr(x)

    def body(self, x: Var) -> Var:
        inside = -(x * log(select(x == 0, Constant(x.type, 1)(), x)))
        return select(x < 0, Constant(x.type, -inf)(), inside)

    def rev(self, x: Var, dy: Var) -> Var:
        return -(dy * (log(x) + 1))


class BinaryCrossEntropy(SpecialMap):
    """Cross entropy of a probability x and its target y: z = -y ln x - (1 - y) ln (1 - x), for floating T.

    Type:     (T, T) -> T
    Domain:   0 ≤ x ≤ 1; logarithms are at least -100
    Gradient: dx = dz · (x - y) / max(x (1 - x), 10⁻¹²), dy = dz · (ln (1 - x) - ln x)
    """

    domain = (0.1, 0.9)

    def ref(self, x: Array, y: Array) -> Any:
        logarithm, complement = (np.maximum(np.log(p), LEAST_LOGARITHM) for p in (x, 1 - x))
        return -(y * logarithm + (1 - y) * complement)

    def body(self, x: Var, y: Var) -> Var:
        return -(y * _bounded_log(x) + (1 - y) * _bounded_log(1 - x))

    def rev(self, x: Var, y: Var, dz: Var) -> tuple[Var, Var]:
        variance = maximum(x * (1 - x), Constant(x.type, LEAST_VARIANCE)())
        return dz * ((x - y) / variance), dz * (_bounded_log(1 - x) - _bounded_log(x))


def _bounded_log(x: Var) -> Var:
    """Return ln x, or -100 if that is more."""
    return maximum(log(x), Constant(x.type, LEAST_LOGARITHM)())


entropy, binary_cross_entropy = Entropy(), BinaryCrossEntropy()
