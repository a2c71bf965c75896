"""Activations: definitions, with an explicit reverse where that is shorter or more stable."""

from __future__ import annotations

from math import pi, sqrt
from typing import Any

import numpy as np

from catgrad.ops.arithmetic import absolute, maximum
from catgrad.ops.compare import select
from catgrad.ops.scalar import FloatMap
from catgrad.ops.transcendental import Erf, erf, exp, expm1, log1p, tanh
from catgrad.terms.op import INPUTS, OUTPUTS
from catgrad.terms.structural import zeros_like
from catgrad.terms.var import Var
from catgrad.types import Array

__all__ = ["elu", "gelu", "gelu_tanh", "leaky_relu", "relu", "sigmoid", "silu", "softplus"]


class Activation(FloatMap, register=False):
    """A map between layers."""

    names_result = True


class Sigmoid(Activation):
    """Logistic function: y = 1 / (1 + e⁻ˣ), for floating T.

    Type:     (T) -> T, with 0 ≤ y ≤ 1
    Gradient: dx = dy · y · (1 - y)
    """

    saves = OUTPUTS

    def ref(self, x: Array) -> Any:
        return 1 / (1 + np.exp(-x))

    def body(self, x: Var) -> Var:
        return 1 / (1 + exp(-x))

    def rev(self, y: Var, dy: Var) -> Var:
        return dy * (y * (1 - y))


class Relu(Activation):
    """Rectifier: y = max(x, 0), for floating T.

    Type:     (T) -> T, with y ≥ 0
    Gradient: dx = 0 where x ≤ 0, else dy (so 0 at 0, as torch.relu)
    """

    saves = INPUTS
    rounds_once = True

    def ref(self, x: Array) -> Array:
        return np.maximum(x, 0)

    def body(self, x: Var) -> Var:
        return maximum(x, zeros_like(x))

    def rev(self, x: Var, dy: Var) -> Var:
        return select(x <= 0, zeros_like(dy), dy)


class LeakyRelu(Activation):
    """Leaky rectifier: y = x where x > 0, a · x elsewhere, for floating T.

    Type:     (T) -> T
    Gradient: dx = dy where x > 0, a · dy elsewhere
    """

    slope: float = 0.01
    saves = INPUTS

    def ref(self, x: Array) -> Array:
        return np.where(x > 0, x, self.slope * x)

    def body(self, x: Var) -> Var:
        return select(x > 0, x, self.slope * x)

    def rev(self, x: Var, dy: Var) -> Var:
        return select(x > 0, dy, self.slope * dy)


class Elu(Activation):
    """Exponential linear unit: y = x where x > 0, a · (eˣ - 1) elsewhere, for floating T.

    Type:     (T) -> T, with y > -a
    Gradient: dx = dy where x > 0, dy · a · eˣ elsewhere
    Source:   Clevert et al. 2016 (arXiv:1511.07289), equation 15
    """

    scale: float = 1.0
    saves = INPUTS

    def ref(self, x: Array) -> Array:
        return np.where(x > 0, x, self.scale * np.expm1(x))

    def body(self, x: Var) -> Var:
        return select(x > 0, x, self.scale * expm1(x))

    def rev(self, x: Var, dy: Var) -> Var:
        return select(x > 0, dy, dy * (self.scale * exp(x)))


class Softplus(Activation):
    """Smooth ramp: y = ln(1 + eˣ), for floating T.

    Type:     (T) -> T, with y ≥ 0
    Gradient: dx = dy · σ(x)
    """

    saves = INPUTS

    def ref(self, x: Array) -> Array:
        return np.logaddexp(0, x)

    def body(self, x: Var) -> Var:
        return maximum(x, zeros_like(x)) + log1p(exp(-absolute(x)))

    def rev(self, x: Var, dy: Var) -> Var:
        return dy * sigmoid(x)


class Silu(Activation):
    """Sigmoid linear unit, or swish: y = x · σ(x), for floating T.

    Type:     (T) -> T
    Gradient: dx = dy · σ(x) · (1 + x · (1 - σ(x)))
    Source:   Elfwing et al. 2017 (arXiv:1702.03118), equation 3
    """

    saves = INPUTS

    def ref(self, x: Array) -> Any:
        return x / (1 + np.exp(-x))

    def body(self, x: Var) -> Var:
        return x * sigmoid(x)

    def rev(self, x: Var, dy: Var) -> Var:
        s = sigmoid(x)
        return dy * (s * (1 + x * (1 - s)))


class Gelu(Activation):
    """Gaussian error linear unit: y = x · Φ(x) = x/2 · (1 + erf(x/√2)), for floating T.

    Type:     (T) -> T
    Gradient: dx = dy · (Φ(x) + x · φ(x)), with φ(x) = e^(-x²/2) / √(2π)
    Source:   Hendrycks and Gimpel 2016 (arXiv:1606.08415), section 2
    """

    saves = INPUTS

    def ref(self, x: Array) -> Any:
        return 0.5 * x * (1 + Erf().ref(x / sqrt(2)))

    def body(self, x: Var) -> Var:
        return 0.5 * x * (1 + erf(x * (1 / sqrt(2))))

    def rev(self, x: Var, dy: Var) -> Var:
        cumulative = 0.5 * (1 + erf(x * (1 / sqrt(2))))
        density = exp(-0.5 * (x * x)) * (1 / sqrt(2 * pi))
        return dy * (cumulative + x * density)


class GeluTanh(Activation):
    """GELU by its approximation: y = x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³))), for floating T.

    Type:     (T) -> T
    Gradient: of this formula
    Source:   Hendrycks and Gimpel 2016 (arXiv:1606.08415), section 2
    """

    result = "gelu"
    saves = INPUTS

    def ref(self, x: Array) -> Any:
        return 0.5 * x * (1 + np.tanh(sqrt(2 / pi) * (x + 0.044715 * x * x * x)))

    def body(self, x: Var) -> Var:
        return 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * (x * x * x))))

    def rev(self, x: Var, dy: Var) -> Var:
        t = tanh(sqrt(2 / pi) * (x + 0.044715 * (x * x * x)))
        slope = sqrt(2 / pi) * (1 + 3 * 0.044715 * (x * x))
        return dy * (0.5 * (1 + t) + 0.5 * x * ((1 - t * t) * slope))


def leaky_relu(x: Var, slope: float = 0.01) -> Var:
    """y = x where x > 0, slope · x elsewhere."""
    return LeakyRelu(slope)(x)


def elu(x: Var, scale: float = 1.0) -> Var:
    """y = x where x > 0, scale · (eˣ - 1) elsewhere."""
    return Elu(scale)(x)


sigmoid, relu, softplus, silu = Sigmoid(), Relu(), Softplus(), Silu()
gelu, gelu_tanh = Gelu(), GeluTanh()
