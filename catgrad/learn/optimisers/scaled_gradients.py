"""Gradients divided by the root of their accumulated squares."""

from __future__ import annotations

from catgrad import ops
from catgrad.initialisers import Filled
from catgrad.learn.optimiser import Optimiser, Run, StateArray, scaled
from catgrad.learn.optimisers.updates import above_zero, check_ranges, decayed, optimiser, with_settings
from catgrad.learn.options import number
from catgrad.learn.schedules import Momentum, Rate
from catgrad.terms.var import Var
from catgrad.types import Dtype


@with_settings
def rmsprop(
    learning_rate: Rate = 1e-2,
    alpha: float = 0.99,
    epsilon: float = 1e-8,
    weight_decay: float = 0.0,
    momentum: Momentum = 0.0,
    centred: bool = False,
    maximize: bool = False,
) -> Optimiser:
    """RMSprop: v ← α v + (1−α) g², p ← p − η g / (√v + ε), with g = dp + λ p.

    With `centred`, v − a² for v under the root, where a ← α a + (1−α) g; with momentum, the
    quotient goes into b ← μ b + g / (√v + ε), and p ← p − η b. With `maximize`, −dp instead of dp.

    Units:  η ≥ 0; 0 ≤ α < 1; 0 ≤ μ < 1; λ ≥ 0
    State:  `square_avg` v, `grad_avg` a, `momentum_buffer` b, as in torch.optim.RMSprop
    Raises: OptionError for values outside their range
    Source: Tieleman and Hinton 2012, lecture 6.5; Graves 2013 (arXiv:1308.0850), section 4.2
    """
    check_ranges(learning_rate, weight_decay, epsilon, alpha=alpha, momentum=momentum)
    names = ("square_avg", *(["grad_avg"] if centred else []), *(["momentum_buffer"] if momentum else []))

    def put(run: Run, *state_p_dp: Var) -> tuple[Var, ...]:
        *arrays, p, dp = state_p_dp
        state, gradient = dict(zip(names, arrays, strict=True)), decayed(p, dp, weight_decay)
        state["square_avg"] = alpha * state["square_avg"] + (1 - alpha) * ops.square(gradient)
        variance = state["square_avg"]
        if centred:
            state["grad_avg"] = alpha * state["grad_avg"] + (1 - alpha) * gradient
            variance = variance - ops.square(state["grad_avg"])
        change = gradient / above_zero(ops.sqrt(variance), epsilon)
        if momentum:
            mu = run.setting("momentum", momentum, p.dtype)
            change = state["momentum_buffer"] = scaled(mu, state["momentum_buffer"]) + change
        return *state.values(), p - scaled(run.rate(learning_rate, p.dtype), change)

    return optimiser("rmsprop", put, names, maximize)


@with_settings
def adadelta(
    learning_rate: Rate = 1.0,
    rho: float = 0.9,
    epsilon: float = 1e-6,
    weight_decay: float = 0.0,
    maximize: bool = False,
) -> Optimiser:
    """Adadelta: v ← ρ v + (1−ρ) g², δ = √(u + ε) / √(v + ε) · g, u ← ρ u + (1−ρ) δ², p ← p − η δ.

    g = dp + λ p; with `maximize`, −dp instead of dp.

    Units:  η ≥ 0; 0 ≤ ρ < 1; λ ≥ 0
    State:  `square_avg` v, `acc_delta` u, as in torch.optim.Adadelta
    Raises: OptionError for values outside their range
    Source: Zeiler 2012 (arXiv:1212.5701), algorithm 1
    """
    check_ranges(learning_rate, weight_decay, epsilon, rho=rho)

    def put(run: Run, v: Var, u: Var, p: Var, dp: Var) -> tuple[Var, Var, Var]:
        gradient = decayed(p, dp, weight_decay)
        v = rho * v + (1 - rho) * ops.square(gradient)
        change = ops.sqrt(above_zero(u, epsilon)) / ops.sqrt(above_zero(v, epsilon)) * gradient
        u = rho * u + (1 - rho) * ops.square(change)
        return v, u, p - scaled(run.rate(learning_rate, p.dtype), change)

    return optimiser("adadelta", put, ("square_avg", "acc_delta"), maximize)


@with_settings
def adagrad(
    learning_rate: Rate = 1e-2,
    epsilon: float = 1e-10,
    weight_decay: float = 0.0,
    lr_decay: float = 0.0,
    initial_accumulator_value: float = 0.0,
    maximize: bool = False,
) -> Optimiser:
    """Adagrad: v ← v + g², p ← p − η / (1 + (t−1) δ) · g / (√v + ε), with g = dp + λ p.

    t is the step from 1, δ `lr_decay`, and v is `initial_accumulator_value` at first; with `maximize`, −dp
    instead of dp.

    Units:  η ≥ 0; λ ≥ 0; δ ≥ 0; v ≥ 0
    State:  `sum` v, as in torch.optim.Adagrad
    Raises: OptionError for values outside their range
    Source: Duchi et al. 2011, figure 1
    """
    check_ranges(learning_rate, weight_decay, epsilon)
    decay, first = (
        number("lr_decay", lr_decay),
        number("initial_accumulator_value", initial_accumulator_value),
    )

    def step_size(run: Run, dtype: Dtype) -> Var | float:
        def slowed() -> Var:
            return run.rate(learning_rate, Dtype.float64) / (1 + (run.count() - 1) * decay)

        if not decay:
            return run.rate(learning_rate, dtype)
        return run.number("step_size", ("adagrad", learning_rate, decay), dtype, slowed)

    def put(run: Run, v: Var, p: Var, dp: Var) -> tuple[Var, Var]:
        gradient = decayed(p, dp, weight_decay)
        v = v + ops.square(gradient)
        return v, p - scaled(step_size(run, p.dtype), gradient / above_zero(ops.sqrt(v), epsilon))

    return optimiser("adagrad", put, (StateArray("sum", Filled(first)),), maximize)
