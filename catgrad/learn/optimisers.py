"""Optimisers, with the numbers of `torch.optim` where it has them.

A learning rate is a number, or a schedule of `catgrad.learn.schedules`.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

from catgrad import ops
from catgrad.errors import OptionError
from catgrad.learn.optimiser import Optimiser, Run, clipped, frozen, grouped, require_optimiser, scaled
from catgrad.learn.options import check_integer, fraction, number, positive
from catgrad.learn.schedules import RATE, Rate, Schedule
from catgrad.terms.state import STEP
from catgrad.terms.structural import Constant, Label
from catgrad.types import Dtype, NdArrayType


def sgd(
    learning_rate: Rate,
    momentum: float = 0.0,
    nesterov: bool = False,
    weight_decay: float = 0.0,
    dampening: float = 0.0,
) -> Optimiser:
    """Gradient descent: p ← p − η · g with g = dp + λ p, or with momentum v ← μ v + (1−τ) g, p ← p − η v.

    At the first step v ← g. With `nesterov`, p ← p − η (g + μ v).

    Units:  η > 0; 0 ≤ μ < 1; λ ≥ 0; 0 ≤ τ ≤ 1
    State:  `momentum`, v, only where μ > 0, as in torch.optim.SGD
    Raises: OptionError for values outside their range
    Source: Polyak 1964; Sutskever et al. 2013, equation 1
    """
    settings = dict(locals())
    _checked(learning_rate, weight_decay, momentum=momentum)
    mu, decay = float(momentum), float(weight_decay)
    if number("dampening", dampening) > 1:
        raise OptionError("dampening must lie in [0, 1]", f"it is {dampening}", "try 0")
    if nesterov and (not mu or dampening):
        raise OptionError(
            "nesterov must have momentum and no dampening",
            f"momentum is {mu} and dampening {dampening}",
            "set them",
        )

    def descend(run: Run, p: Any, dp: Any) -> Any:
        return (p - scaled(run.rate(learning_rate, p.dtype), decayed(p, dp, decay)),)

    def descend_with_momentum(run: Run, velocity: Any, p: Any, dp: Any) -> Any:
        gradient = decayed(p, dp, decay)
        moved = mu * velocity + (1 - dampening) * gradient
        velocity = ops.select(_is_first(run, p), gradient, moved) if dampening else moved
        change = gradient + mu * velocity if nesterov else velocity
        return velocity, p - scaled(run.rate(learning_rate, p.dtype), change)

    put, state = (descend_with_momentum, ("momentum",)) if mu else (descend, ())
    return Optimiser("sgd", put, state, settings=settings)


def adam(
    learning_rate: Rate = 1e-3,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    weight_decay: float = 0.0,
    amsgrad: bool = False,
) -> Optimiser:
    """Adam: m ← β₁ m + (1−β₁) g, v ← β₂ v + (1−β₂) g², p ← p − η m̂ / (√v̂ + ε), with g = dp + λ p.

    m̂ = m / (1−β₁ᵗ) and v̂ = v / (1−β₂ᵗ) at step t; with `amsgrad` the greatest v so far instead of v.

    Units:  η > 0; 0 ≤ β < 1; λ ≥ 0
    State:  `step` t; `exp_avg` m, `exp_avg_sq` v and `max_exp_avg_sq`, as in torch.optim.Adam
    Raises: OptionError for values outside their range
    Source: Kingma and Ba 2015 (arXiv:1412.6980), algorithm 1; Reddi et al. 2018, algorithm 2
    """
    settings = dict(locals())
    _checked(learning_rate, weight_decay, epsilon, beta1=beta1, beta2=beta2)

    def put(run: Run, *state_p_dp: Any) -> Any:
        *state, p, dp = state_p_dp
        *state, change = _adam(run, state, decayed(p, dp, weight_decay), learning_rate, beta1, beta2, epsilon)
        return *state, p - change

    return Optimiser("adam", put, _moments(amsgrad), settings=settings)


def adamw(
    learning_rate: Rate = 1e-3,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    weight_decay: float = 1e-2,
    amsgrad: bool = False,
) -> Optimiser:
    """Adam with decoupled weight decay: p ← (1 − η λ) p − η m̂ / (√v̂ + ε), with g = dp.

    Units:  η > 0; 0 ≤ β < 1; λ ≥ 0
    State:  `step`, `exp_avg`, `exp_avg_sq` and `max_exp_avg_sq`, as in torch.optim.AdamW
    Raises: OptionError for values outside their range
    Source: Loshchilov and Hutter 2019 (arXiv:1711.05101), algorithm 2
    """
    settings = dict(locals())
    _checked(learning_rate, weight_decay, epsilon, beta1=beta1, beta2=beta2)

    def put(run: Run, *state_p_dp: Any) -> Any:
        *state, p, dp = state_p_dp
        *state, change = _adam(run, state, dp, learning_rate, beta1, beta2, epsilon)
        return *state, _shrunk(run, p, learning_rate, weight_decay) - change

    return Optimiser("adamw", put, _moments(amsgrad), settings=settings)


def rmsprop(
    learning_rate: Rate = 1e-2,
    alpha: float = 0.99,
    epsilon: float = 1e-8,
    weight_decay: float = 0.0,
    momentum: float = 0.0,
    centred: bool = False,
) -> Optimiser:
    """RMSprop: v ← α v + (1−α) g², p ← p − η g / (√v + ε), with g = dp + λ p.

    With `centred`, v − a² for v under the root, where a ← α a + (1−α) g; with momentum, the
    quotient goes into b ← μ b + g / (√v + ε), and p ← p − η b.

    Units:  η > 0; 0 ≤ α < 1; 0 ≤ μ < 1; λ ≥ 0
    State:  `square_avg` v, `grad_avg` a, `momentum_buffer` b, as in torch.optim.RMSprop
    Raises: OptionError for values outside their range
    Source: Tieleman and Hinton 2012, lecture 6.5; Graves 2013 (arXiv:1308.0850), section 4.2
    """
    settings = dict(locals())
    _checked(learning_rate, weight_decay, epsilon, alpha=alpha, momentum=momentum)
    names = ("square_avg", *(["grad_avg"] if centred else []), *(["momentum_buffer"] if momentum else []))

    def put(run: Run, *state_p_dp: Any) -> Any:
        *arrays, p, dp = state_p_dp
        state, gradient = dict(zip(names, arrays, strict=True)), decayed(p, dp, weight_decay)
        state["square_avg"] = alpha * state["square_avg"] + (1 - alpha) * ops.square(gradient)
        variance = state["square_avg"]
        if centred:
            state["grad_avg"] = alpha * state["grad_avg"] + (1 - alpha) * gradient
            variance = variance - ops.square(state["grad_avg"])
        change = gradient / _above_zero(ops.sqrt(variance), epsilon)
        if momentum:
            change = state["momentum_buffer"] = momentum * state["momentum_buffer"] + change
        return *state.values(), p - scaled(run.rate(learning_rate, p.dtype), change)

    return Optimiser("rmsprop", put, names, settings=settings)


def adagrad(learning_rate: Rate = 1e-2, epsilon: float = 1e-10, weight_decay: float = 0.0) -> Optimiser:
    """Adagrad: v ← v + g², p ← p − η g / (√v + ε), with g = dp + λ p.

    Units:  η > 0; λ ≥ 0
    State:  `sum` v, as in torch.optim.Adagrad
    Raises: OptionError for values outside their range
    Source: Duchi et al. 2011, figure 1
    """
    settings = dict(locals())
    _checked(learning_rate, weight_decay, epsilon)

    def put(run: Run, v: Any, p: Any, dp: Any) -> Any:
        gradient = decayed(p, dp, weight_decay)
        v = v + ops.square(gradient)
        return v, p - scaled(run.rate(learning_rate, p.dtype), gradient / _above_zero(ops.sqrt(v), epsilon))

    return Optimiser("adagrad", put, ("sum",), settings=settings)


def lion(
    learning_rate: Rate = 1e-4, beta1: float = 0.9, beta2: float = 0.99, weight_decay: float = 0.0
) -> Optimiser:
    """Lion: p ← (1 − η λ) p − η sign(β₁ m + (1−β₁) dp), m ← β₂ m + (1−β₂) dp.

    Units:  η > 0; 0 ≤ β < 1; λ ≥ 0
    State:  `exp_avg` m
    Raises: OptionError for values outside their range
    Source: Chen et al. 2023 (arXiv:2302.06675), algorithm 2
    """
    _checked(learning_rate, weight_decay, beta1=beta1, beta2=beta2)

    def put(run: Run, m: Any, p: Any, dp: Any) -> Any:
        direction = ops.sign(beta1 * m + (1 - beta1) * dp)
        moved = _shrunk(run, p, learning_rate, weight_decay)
        return beta2 * m + (1 - beta2) * dp, moved - scaled(run.rate(learning_rate, p.dtype), direction)

    return Optimiser("lion", put, ("exp_avg",))


NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
"""The coefficients of Muon's Newton-Schulz iteration, chosen for the greatest slope at 0."""


def muon(
    learning_rate: Rate = 1e-3,
    momentum: float = 0.95,
    weight_decay: float = 0.1,
    others: Optimiser | None = None,
    iterations: int = 5,
) -> Optimiser:
    """Muon, for matrices: v ← μ v + (1−μ) dp, p ← (1 − η λ) p − η √max(1, n/m) O.

    p has m inputs and n outputs. O is (1−μ) dp + μ v with its singular values brought near 1 by
    Newton-Schulz iterations X ← a X + (b XXᵀ + c (XXᵀ)²) X. Parameters that are not matrices are
    updated by `others`, by default AdamW of the same rate.

    Units:  η > 0; 0 ≤ μ < 1; λ ≥ 0
    State:  `momentum_buffer` v, as in torch.optim.Muon, which iterates in bfloat16 however
    Raises: OptionError for values outside their range
    Source: Jordan et al. 2024, Muon: an optimizer for hidden layers
    """
    _checked(learning_rate, weight_decay, momentum=momentum)
    check_integer("the iterations of muon", iterations, 1)
    rest = adamw(learning_rate, weight_decay=weight_decay) if others is None else require_optimiser(others)

    def put(run: Run, v: Any, p: Any, dp: Any) -> Any:
        v = momentum * v + (1 - momentum) * dp
        direction = _orthogonal((1 - momentum) * dp + momentum * v, iterations)
        inputs, outputs = p.shape
        moved = _shrunk(run, p, learning_rate, weight_decay)
        change = scaled(run.rate(learning_rate, p.dtype), direction) * sqrt(max(1.0, outputs / inputs))
        return v, moved - change

    matrices = Optimiser("muon", put, ("momentum_buffer",))
    return grouped(lambda parameter: matrices if parameter.type.rank == 2 else rest)


def decayed(p: Any, dp: Any, decay: float) -> Any:
    """Return the gradient of the loss + decay · |p|² / 2."""
    return dp + decay * p if decay else dp


def _shrunk(run: Run, p: Any, rate: Rate, decay: float) -> Any:
    """Return (1 − η λ) p."""
    return scaled(1 - run.rate(rate, p.dtype) * decay, p) if decay else p


def _moments(amsgrad: bool) -> tuple[str, ...]:
    return ("exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if amsgrad else []))


def _adam(
    run: Run, state: list[Any], dp: Any, rate: Rate, beta1: float, beta2: float, epsilon: float
) -> tuple[Any, ...]:
    """Return the new moments and Adam's update of the parameter."""
    m, v, *greatest = state
    dtype = dp.dtype
    t = run.count()

    def first() -> Any:
        return Label("step_size")(ops.cast(run.rate(rate, Dtype.float64) / (1 - beta1**t), dtype))

    def second() -> Any:
        return Label("correction")(ops.cast(ops.sqrt(1 - beta2**t), dtype))

    # In float32, 1 - 0.999 would lose three digits.
    step_size = run.once(("step size", rate, beta1, dtype), first)
    correction = run.once(("correction", beta2, dtype), second)
    m = beta1 * m + (1 - beta1) * dp
    v = beta2 * v + (1 - beta2) * ops.square(dp)
    greatest = [ops.maximum(greatest[0], v)] if greatest else []
    spread = ops.sqrt(greatest[0] if greatest else v) / ops.broadcast(correction, v.shape)
    return m, v, *greatest, scaled(step_size, m / _above_zero(spread, epsilon))


def _above_zero(root: Any, epsilon: float) -> Any:
    """Compute √v + ε. Raises: OptionError if ε is rounded to 0 in the dtype, which would cause 0 / 0."""
    if epsilon and not Constant(root.type, epsilon).value:
        raise OptionError(
            f"epsilon must not be 0 in {root.dtype.name}", f"{epsilon} is rounded to it", "try 1e-4"
        )
    return root + epsilon


def _orthogonal(g: Any, iterations: int) -> Any:
    """Orthogonalise g: singular values near 1."""
    a, b, c = NEWTON_SCHULZ
    rows, columns = g.shape
    norm = ops.sqrt(ops.sum(ops.square(g)))
    floor = Constant(NdArrayType((), g.dtype), 1e-7)()
    x = g / ops.broadcast(ops.maximum(norm, floor), g.shape)
    x = ops.transpose(x) if rows > columns else x
    for _ in range(iterations):
        gram = x @ ops.transpose(x)
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return ops.transpose(x) if rows > columns else x


def _is_first(run: Run, p: Any) -> Any:
    first = run.once("first", lambda: STEP() == 0)
    return ops.broadcast(first, p.shape)


def _checked(learning_rate: Rate, weight_decay: float, epsilon: float = 0.0, **decays: float) -> None:
    """Raise OptionError unless decays lie in [0, 1), and all other values in their ranges."""
    for name, value in decays.items():
        fraction(name, value)
    if not isinstance(learning_rate, Schedule):
        positive(RATE, learning_rate)
    number("weight decay", weight_decay)
    number("epsilon", epsilon)


__all__ = [
    "Optimiser", "adagrad", "adam", "adamw", "clipped", "frozen", "grouped", "lion", "muon", "rmsprop",
    "sgd",
]  # fmt: skip
