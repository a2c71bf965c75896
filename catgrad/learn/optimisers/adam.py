"""Adam: gradients with momentum, divided by the root of their mean squares."""

from __future__ import annotations

from catgrad import ops
from catgrad.learn.optimiser import Optimiser, Run, scaled
from catgrad.learn.optimisers.updates import (
    above_zero,
    averaged,
    check_ranges,
    decayed,
    optimiser,
    shrunk,
    with_settings,
)
from catgrad.learn.schedules import Momentum, Rate
from catgrad.terms.var import Var
from catgrad.types import Dtype


@with_settings
def adam(
    learning_rate: Rate = 1e-3,
    beta1: Momentum = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    weight_decay: float = 0.0,
    amsgrad: bool = False,
    maximize: bool = False,
) -> Optimiser:
    """Adam: m ← β₁ m + (1−β₁) g, v ← β₂ v + (1−β₂) g², p ← p − η m̂ / (√v̂ + ε), with g = dp + λ p.

    m̂ = m / (1−β₁ᵗ) and v̂ = v / (1−β₂ᵗ) at step t; with `amsgrad` the greatest v so far instead of v; with
    `maximize`, −dp instead of dp.

    Units:  η ≥ 0; 0 ≤ β < 1; λ ≥ 0
    State:  `step` t; `exp_avg` m, `exp_avg_sq` v and `max_exp_avg_sq`, as in torch.optim.Adam
    Raises: OptionError for values outside their range
    Source: Kingma and Ba 2015 (arXiv:1412.6980), algorithm 1; Reddi et al. 2018, algorithm 2
    """
    check_ranges(learning_rate, weight_decay, epsilon, beta1=beta1, beta2=beta2)

    def put(run: Run, *state_p_dp: Var) -> tuple[Var, ...]:
        *state, p, dp = state_p_dp
        *state, change = _adam(run, state, decayed(p, dp, weight_decay), learning_rate, beta1, beta2, epsilon)
        return *state, p - change

    return optimiser("adam", put, _moments(amsgrad), maximize)


@with_settings
def adamw(
    learning_rate: Rate = 1e-3,
    beta1: Momentum = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    weight_decay: float = 1e-2,
    amsgrad: bool = False,
    maximize: bool = False,
) -> Optimiser:
    """Adam with decoupled weight decay: p ← (1 − η λ) p − η m̂ / (√v̂ + ε), with g = dp.

    With `maximize`, g = −dp.

    Units:  η ≥ 0; 0 ≤ β < 1; λ ≥ 0
    State:  `step`, `exp_avg`, `exp_avg_sq` and `max_exp_avg_sq`, as in torch.optim.AdamW
    Raises: OptionError for values outside their range
    Source: Loshchilov and Hutter 2019 (arXiv:1711.05101), algorithm 2
    """
    check_ranges(learning_rate, weight_decay, epsilon, beta1=beta1, beta2=beta2)

    def put(run: Run, *state_p_dp: Var) -> tuple[Var, ...]:
        *state, p, dp = state_p_dp
        *state, change = _adam(run, state, dp, learning_rate, beta1, beta2, epsilon)
        return *state, shrunk(run, p, learning_rate, weight_decay) - change

    return optimiser("adamw", put, _moments(amsgrad), maximize)


def _moments(amsgrad: bool) -> tuple[str, ...]:
    return ("exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if amsgrad else []))


def _adam(
    run: Run, state: list[Var], dp: Var, rate: Rate, beta1: Momentum, beta2: float, epsilon: float
) -> tuple[Var, ...]:
    """Return the new moments and Adam's update of the parameter."""
    m, v, *greatest = state
    dtype = dp.dtype

    m = averaged(run, beta1, m, dp)
    v = beta2 * v + (1 - beta2) * ops.square(dp)
    greatest = [ops.maximum(greatest[0], v)] if greatest else []
    spread = ops.sqrt(greatest[0] if greatest else v) / ops.broadcast(correction(run, beta2, dtype), v.shape)
    return m, v, *greatest, scaled(step_size(run, rate, beta1, dtype), m / above_zero(spread, epsilon))


def step_size(run: Run, rate: Rate, beta1: Momentum, dtype: Dtype) -> Var:
    """Compute η / (1−β₁ᵗ)."""

    def corrected() -> Var:  # in float32, 1 - 0.999 would lose three digits
        beta = run.setting("beta1", beta1, Dtype.float64)
        return run.rate(rate, Dtype.float64) / (1 - beta ** run.count())

    return run.number("step_size", ("adam", rate, beta1), dtype, corrected)


def correction(run: Run, beta2: float, dtype: Dtype) -> Var:
    """Compute √(1−β₂ᵗ)."""
    return run.number("correction", beta2, dtype, lambda: ops.sqrt(1 - beta2 ** run.count()))
