"""Gradient descent: with momentum, and averaged."""

from __future__ import annotations

from catgrad import ops
from catgrad.errors import OptionError
from catgrad.learn.optimiser import Optimiser, Run, scaled
from catgrad.learn.optimisers.updates import (
    at_least,
    check_ranges,
    decayed,
    is_first,
    optimiser,
    with_settings,
)
from catgrad.learn.options import number
from catgrad.learn.schedules import Momentum, Rate
from catgrad.terms.var import Var
from catgrad.types import Dtype


@with_settings
def sgd(
    learning_rate: Rate,
    momentum: Momentum = 0.0,
    nesterov: bool = False,
    weight_decay: float = 0.0,
    dampening: float = 0.0,
    maximize: bool = False,
) -> Optimiser:
    """Gradient descent: p ← p − η · g with g = dp + λ p, or with momentum v ← μ v + (1−τ) g, p ← p − η v.

    At the first step v ← g. With `nesterov`, p ← p − η (g + μ v); with `maximize`, −dp instead of dp.

    Units:  η ≥ 0; 0 ≤ μ < 1; λ ≥ 0; 0 ≤ τ ≤ 1
    State:  `momentum`, v, only where μ > 0, as in torch.optim.SGD
    Raises: OptionError for values outside their range
    Source: Polyak 1964; Sutskever et al. 2013, equation 1
    """
    check_ranges(learning_rate, weight_decay, momentum=momentum)
    decay = float(weight_decay)
    if number("dampening", dampening) > 1:
        raise OptionError("dampening must lie in [0, 1]", f"it is {dampening}", "try 0")
    if nesterov and (not momentum or dampening):
        raise OptionError(
            "nesterov must have momentum and no dampening",
            f"momentum is {momentum} and dampening {dampening}",
            "set them",
        )

    def descend(run: Run, p: Var, dp: Var) -> tuple[Var]:
        return (p - scaled(run.rate(learning_rate, p.dtype), decayed(p, dp, decay)),)

    def descend_with_momentum(run: Run, velocity: Var, p: Var, dp: Var) -> tuple[Var, Var]:
        gradient = decayed(p, dp, decay)
        mu = run.setting("momentum", momentum, p.dtype)
        moved = scaled(mu, velocity) + (1 - dampening) * gradient
        velocity = ops.select(is_first(run, p), gradient, moved) if dampening else moved
        change = gradient + scaled(mu, velocity) if nesterov else velocity
        return velocity, p - scaled(run.rate(learning_rate, p.dtype), change)

    put, state = (descend_with_momentum, ("momentum",)) if momentum else (descend, ())
    return optimiser("sgd", put, state, maximize)


@with_settings
def asgd(
    learning_rate: Rate = 1e-2,
    lambd: float = 1e-4,
    alpha: float = 0.75,
    t0: float = 1e6,
    weight_decay: float = 0.0,
    maximize: bool = False,
) -> Optimiser:
    """Averaged gradient descent: p ← (1 − λ₀ ηₜ) p − ηₜ g, a ← a + (p − a) / max(1, t−1−t₀).

    g = dp + λ p, or −dp + λ p with `maximize`; λ₀ is `lambd`, and ηₜ = η / (1 + λ₀ η (t−1))^α at step t
    from 1.

    Units:  η ≥ 0; λ₀, α, t₀, λ ≥ 0
    State:  `ax` a, the average, as in torch.optim.ASGD, where a schedule sets η one step later
    Raises: OptionError for values outside their range
    Source: Polyak and Juditsky 1992, Acceleration of stochastic approximation by averaging
    """
    check_ranges(learning_rate, weight_decay)
    for name, value in (("lambd", lambd), ("alpha", alpha), ("t0", t0)):
        number(f"{name} of asgd", value)
    meaning = ("asgd", learning_rate, lambd, alpha)

    def put(run: Run, average: Var, p: Var, dp: Var) -> tuple[Var, Var]:
        before = run.count() - 1

        def step_size() -> Var:
            rate = run.rate(learning_rate, Dtype.float64)
            return rate / (1 + (before * lambd) * rate) ** alpha

        eta = run.number("step_size", meaning, p.dtype, step_size)
        decay = run.number("decay", meaning, p.dtype, lambda: 1 - lambd * step_size())
        p = scaled(decay, p) - scaled(eta, decayed(p, dp, weight_decay))
        share = run.number("share", t0, p.dtype, lambda: 1 / at_least(before - t0, 1.0))
        # a + 1 · (p − a) would be rounded.
        is_begun = ops.broadcast(share != 1, p.shape)
        return ops.select(is_begun, average + scaled(share, p - average), p), p

    return optimiser("asgd", put, ("ax",), maximize)
