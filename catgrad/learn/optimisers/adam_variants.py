"""Adam with other corrections and norms: Adamax, NAdam, RAdam."""

from __future__ import annotations

from math import sqrt

from catgrad import ops
from catgrad.initialisers import Filled
from catgrad.learn.optimiser import Optimiser, Run, StateArray, scaled
from catgrad.learn.optimisers.adam import correction, step_size
from catgrad.learn.optimisers.updates import (
    above_zero,
    at_least,
    averaged,
    check_ranges,
    decayed,
    optimiser,
    shrunk,
    with_settings,
)
from catgrad.learn.options import number
from catgrad.learn.schedules import Momentum, Rate
from catgrad.terms.structural import Constant
from catgrad.terms.var import Var
from catgrad.types import Dtype, NdArrayType

MOMENTUM_BASE = 0.96
"""The base of NAdam's schedule of momenta."""


@with_settings
def adamax(
    learning_rate: Rate = 2e-3,
    beta1: Momentum = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    weight_decay: float = 0.0,
    maximize: bool = False,
) -> Optimiser:
    """Adamax: m ← β₁ m + (1−β₁) g, u ← max(β₂ u, |g| + ε), p ← p − η / (1−β₁ᵗ) · m / u, with g = dp + λ p.

    With `maximize`, −dp instead of dp.

    Units:  η ≥ 0; 0 ≤ β < 1; λ ≥ 0
    State:  `step` t; `exp_avg` m, `exp_inf` u, as in torch.optim.Adamax
    Raises: OptionError for values outside their range
    Source: Kingma and Ba 2015 (arXiv:1412.6980), algorithm 2
    """
    check_ranges(learning_rate, weight_decay, epsilon, beta1=beta1, beta2=beta2)

    def put(run: Run, m: Var, u: Var, p: Var, dp: Var) -> tuple[Var, Var, Var]:
        gradient = decayed(p, dp, weight_decay)
        m = averaged(run, beta1, m, gradient)
        u = ops.maximum(beta2 * u, above_zero(ops.absolute(gradient), epsilon))
        return m, u, p - scaled(step_size(run, learning_rate, beta1, p.dtype), m / u)

    return optimiser("adamax", put, ("exp_avg", "exp_inf"), maximize)


@with_settings
def nadam(
    learning_rate: Rate = 2e-3,
    beta1: Momentum = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    weight_decay: float = 0.0,
    momentum_decay: float = 4e-3,
    decoupled_weight_decay: bool = False,
    maximize: bool = False,
) -> Optimiser:
    """NAdam, Adam with Nesterov momentum: p ← p − η ((1−μₜ) / (1−πₜ) g + μₜ₊₁ / (1−πₜ₊₁) m) / (√v̂ + ε).

    m, v̂ and g are those of Adam, μₜ = β₁ (1 − ½ · 0.96^(ψ t)) with `momentum_decay` ψ, and πₜ = μ₁ ⋯ μₜ.
    With `decoupled_weight_decay`, g = dp and p ← (1 − η λ) p before; with `maximize`, −dp instead of dp.

    Units:  η ≥ 0; 0 ≤ β < 1; λ, ψ ≥ 0
    State:  `step` t; `exp_avg` m, `exp_avg_sq` v, `mu_product` π, as in torch.optim.NAdam
    Raises: OptionError for values outside their range
    Source: Dozat 2016, Incorporating Nesterov momentum into Adam, algorithm 2
    """
    check_ranges(learning_rate, weight_decay, epsilon, beta1=beta1, beta2=beta2)
    psi = number("momentum_decay", momentum_decay)

    def momentum(run: Run, ahead: int) -> Var:
        def mu() -> Var:
            beta = run.setting("beta1", beta1, Dtype.float64)
            return beta * (1 - 0.5 * MOMENTUM_BASE ** (psi * (run.count() + ahead)))

        return run.number("mu_next" if ahead else "mu", (beta1, psi), Dtype.float64, mu)

    def put(run: Run, m: Var, v: Var, product: Var, p: Var, dp: Var) -> tuple[Var, Var, Var, Var]:
        mu, mu_next, rate = momentum(run, 0), momentum(run, 1), run.rate(learning_rate, Dtype.float64)
        product = product * mu
        p, gradient = _decayed(run, p, dp, learning_rate, weight_decay, decoupled_weight_decay)
        m = averaged(run, beta1, m, gradient)
        v = beta2 * v + (1 - beta2) * ops.square(gradient)
        now = ops.cast(rate * (1 - mu) / (1 - product), p.dtype)
        ahead = ops.cast(rate * mu_next / (1 - product * mu_next), p.dtype)
        spread = above_zero(ops.sqrt(v) / ops.broadcast(correction(run, beta2, p.dtype), v.shape), epsilon)
        return m, v, product, p - (scaled(now, gradient) + scaled(ahead, m)) / spread

    product = StateArray("mu_product", Filled(1.0), lambda _: NdArrayType((), Dtype.float64))
    return optimiser("nadam", put, ("exp_avg", "exp_avg_sq", product), maximize)


@with_settings
def radam(
    learning_rate: Rate = 1e-3,
    beta1: Momentum = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    weight_decay: float = 0.0,
    decoupled_weight_decay: bool = False,
    maximize: bool = False,
) -> Optimiser:
    """RAdam: p ← p − η m̂ r √(1−β₂ᵗ) / (√v + ε) where ρ > 5, and else p ← p − η m̂; with m̂, v and g of Adam.

    ρ = ρ∞ − 2 t β₂ᵗ / (1−β₂ᵗ), ρ∞ = 2 / (1−β₂) − 1, r² = (ρ−4)(ρ−2) ρ∞ / ((ρ∞−4)(ρ∞−2) ρ).
    With `decoupled_weight_decay`, g = dp and p ← (1 − η λ) p before; with `maximize`, −dp instead of dp.

    Units:  η ≥ 0; 0 ≤ β < 1; λ ≥ 0
    State:  `step` t; `exp_avg` m, `exp_avg_sq` v, as in torch.optim.RAdam
    Raises: OptionError for values outside their range
    Source: Liu et al. 2020 (arXiv:1908.03265), algorithm 2
    """
    check_ranges(learning_rate, weight_decay, epsilon, beta1=beta1, beta2=beta2)

    def put(run: Run, m: Var, v: Var, p: Var, dp: Var) -> tuple[Var, Var, Var]:
        p, gradient = _decayed(run, p, dp, learning_rate, weight_decay, decoupled_weight_decay)
        m = averaged(run, beta1, m, gradient)
        v = beta2 * v + (1 - beta2) * ops.square(gradient)
        change = scaled(step_size(run, learning_rate, beta1, p.dtype), m)
        return m, v, p - change * _rectified(run, v, beta2, epsilon)

    return optimiser("radam", put, ("exp_avg", "exp_avg_sq"), maximize)


MIN_RECTIFIED_LENGTH = 5.0
"""The least length ρ of the average at which RAdam divides by the root of v."""


def _rectified(run: Run, v: Var, beta2: float, epsilon: float) -> Var:
    """Compute RAdam's factor of m̂: r √(1−β₂ᵗ) / (√v + ε) where ρ > 5, else 1."""
    longest = 2 / (1 - beta2) - 1
    if longest <= MIN_RECTIFIED_LENGTH:
        return Constant(v.type, 1)()

    def length() -> Var:
        t = run.count()
        return longest - 2 * t * beta2**t / (1 - beta2**t)

    def ratio() -> Var:
        rho = at_least(rho_now, MIN_RECTIFIED_LENGTH)
        scale = sqrt(longest / ((longest - 4) * (longest - 2)))
        return scale * ops.sqrt((rho - 4) * (rho - 2) / rho * (1 - beta2 ** run.count()))

    rho_now = run.number("length", beta2, Dtype.float64, length)
    rectification = run.number("rectification", beta2, v.dtype, ratio)
    rectified = ops.broadcast(rectification, v.shape) / above_zero(ops.sqrt(v), epsilon)
    is_long = ops.broadcast(rho_now > MIN_RECTIFIED_LENGTH, v.shape)
    return ops.select(is_long, rectified, Constant(v.type, 1)())


def _decayed(run: Run, p: Var, dp: Var, rate: Rate, decay: float, is_decoupled: bool) -> tuple[Var, Var]:
    """Apply weight decay, to the parameter if it is decoupled, else to the gradient."""
    return (shrunk(run, p, rate, decay), dp) if is_decoupled else (p, decayed(p, dp, decay))
