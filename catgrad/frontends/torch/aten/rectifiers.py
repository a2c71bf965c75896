"""Activations made of pieces: rectifiers, thresholds, gates."""

from __future__ import annotations

from catgrad import ops
from catgrad.frontends.torch.registry import aten, require
from catgrad.terms.structural import Constant, zeros_like
from catgrad.terms.var import Var

# NaN stays.
aten("threshold.default")(lambda x, bound, value: ops.select(x <= bound, Constant(x.type, value)(), x))


@aten("hardsigmoid.default")
def hard_sigmoid(x: Var) -> Var:
    """Hard sigmoid: x/6 + 1/2, clamped to 0 … 1, with gradient 0 at the ends."""
    zero, one = zeros_like(x), Constant(x.type, 1)()
    return ops.select(x <= -3, zero, ops.select(x >= 3, one, x * (1 / 6) + 0.5))


aten("hardswish.default")(lambda x: x * hard_sigmoid(x))
aten("mish.default")(lambda x: x * ops.tanh(ops.softplus(x)))


@aten("celu.default")
def celu(x: Var, alpha: float = 1.0) -> Var:
    """CELU: x where x > 0, α · (e^(x/α) - 1) elsewhere."""
    below = ops.select(x > 0, zeros_like(x), x)  # the exponential of a large x would be infinite
    return ops.select(x > 0, x, alpha * ops.expm1(below / alpha))


@aten("glu.default")
def gated(x: Var, dim: int = -1) -> Var:
    """Gated linear unit: a · σ(b), for the halves a and b of x along an axis."""
    half = x.shape[dim] // 2
    a, b = ops.split(x, [half, half], dim)
    return a * ops.sigmoid(b)


aten("log_sigmoid_forward.default")(lambda x: (-ops.softplus(-x), None))
aten("_prelu_kernel.default")(lambda x, w: ops.select(x > 0, x, ops.broadcast_to(w, x.shape) * x))


@aten("rrelu_with_noise_functional.default")
def randomised_relu(
    x: Var, noise: Var, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False
) -> tuple[Var, Var]:
    """Randomised rectifier in evaluation: x above 0, and x times the mean of the bounds elsewhere."""
    require(not training, "slopes must not be drawn", "F.rrelu has training=True", "use nn.PReLU")
    return ops.select(x > 0, x, x * ((lower + upper) / 2)), noise
