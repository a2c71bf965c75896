"""Optimisers of `ai.onnx.preview.training`: each updates several arrays by their gradients."""

from __future__ import annotations

from collections.abc import Callable

from catgrad import ops
from catgrad.frontends.onnx.registry import TRAINING, onnx, require
from catgrad.terms.structural import Constant
from catgrad.terms.var import Var

Arrays = tuple[Var, ...]
Update = Callable[..., Arrays]


def _updated(parts: int, arrays: Arrays, update: Update) -> Arrays:
    """Apply an update to each array with its gradient and its state; `parts` are the arrays of each."""
    require(
        len(arrays) % parts == 0,
        f"an optimiser must get {parts} arrays for each parameter",
        f"it gets {len(arrays)}",
        "check the inputs of the node",
    )
    count = len(arrays) // parts
    groups = [arrays[k::count] for k in range(count)]
    results = [update(*group) for group in groups]
    return tuple(one[k] for k in range(parts - 1) for one in results)


@onnx("Adagrad", since=1, domain=TRAINING)
def adagrad(
    rate: Var,
    step: Var,
    *arrays: Var,
    decay_factor: float = 0.0,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
) -> Arrays:
    """Adagrad: h ← h + g², x ← x - r g / (√h + ε), r = R / (1 + T · decay_factor)."""
    r = ops.reshape(rate) / (1 + ops.cast(ops.reshape(step), rate.dtype) * decay_factor)

    def update(x: Var, g: Var, h: Var) -> Arrays:
        g = g + norm_coefficient * x
        h = h + ops.square(g)
        return x - ops.broadcast_to(r, x.shape) * g / (ops.sqrt(h) + epsilon), h

    return _updated(3, arrays, update)


@onnx("Adam", since=1, domain=TRAINING)
def adam(
    rate: Var,
    step: Var,
    *arrays: Var,
    alpha: float = 0.9,
    beta: float = 0.999,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
    norm_coefficient_post: float = 0.0,
) -> Arrays:
    """Adam: v ← α v + (1 - α) g, h ← β h + (1 - β) g², x ← x - r v / (√h + ε), with r corrected for bias."""
    t = ops.cast(ops.reshape(step), rate.dtype)
    plain = ops.reshape(rate)
    corrected = plain * ops.sqrt(1 - _power(beta, t)) / (1 - _power(alpha, t))
    r = ops.select(ops.reshape(step) > 0, corrected, plain)

    def update(x: Var, g: Var, v: Var, h: Var) -> Arrays:
        g = g + norm_coefficient * x
        v = alpha * v + (1 - alpha) * g
        h = beta * h + (1 - beta) * ops.square(g)
        new = x - ops.broadcast_to(r, x.shape) * v / (ops.sqrt(h) + epsilon)
        return (1 - norm_coefficient_post) * new, v, h

    return _updated(4, arrays, update)


def _power(base: float, exponent: Var) -> Var:
    return ops.power(Constant(exponent.type, base)(), exponent)


@onnx("Momentum", since=1, domain=TRAINING)
def momentum(
    rate: Var, step: Var, *arrays: Var, alpha: float, beta: float, mode: str, norm_coefficient: float
) -> Arrays:
    """Momentum: v ← α v + β g, with β = 1 at first; x ← x - r v, or by Nesterov's x - r (g + α v)."""
    first = ops.reshape(step) == 0

    def update(x: Var, g: Var, v: Var) -> Arrays:
        g = g + norm_coefficient * x
        scaled = ops.select(ops.broadcast(first, x.shape), g, beta * g)
        v = alpha * v + scaled
        step = g + alpha * v if mode == "nesterov" else v
        return x - ops.broadcast_to(ops.reshape(rate), x.shape) * step, v

    return _updated(3, arrays, update)
