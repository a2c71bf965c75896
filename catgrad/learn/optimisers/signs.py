"""Updates by the signs of directions."""

from __future__ import annotations

from catgrad import ops
from catgrad.errors import OptionError
from catgrad.initialisers import Filled
from catgrad.learn.optimiser import Optimiser, Run, StateArray, scaled
from catgrad.learn.optimisers.updates import averaged, check_ranges, optimiser, shrunk, with_settings
from catgrad.learn.options import number
from catgrad.learn.schedules import Momentum, Rate
from catgrad.terms.var import Var


@with_settings
def lion(
    learning_rate: Rate = 1e-4,
    beta1: Momentum = 0.9,
    beta2: float = 0.99,
    weight_decay: float = 0.0,
    maximize: bool = False,
) -> Optimiser:
    """Lion: p ← (1 − η λ) p − η sign(β₁ m + (1−β₁) dp), m ← β₂ m + (1−β₂) dp.

    With `maximize`, −dp instead of dp.

    Units:  η ≥ 0; 0 ≤ β < 1; λ ≥ 0
    State:  `exp_avg` m
    Raises: OptionError for values outside their range
    Source: Chen et al. 2023 (arXiv:2302.06675), algorithm 2
    """
    check_ranges(learning_rate, weight_decay, beta1=beta1, beta2=beta2)

    def put(run: Run, m: Var, p: Var, dp: Var) -> tuple[Var, Var]:
        direction = ops.sign(averaged(run, beta1, m, dp))
        moved = shrunk(run, p, learning_rate, weight_decay)
        return beta2 * m + (1 - beta2) * dp, moved - scaled(run.rate(learning_rate, p.dtype), direction)

    return optimiser("lion", put, ("exp_avg",), maximize)


@with_settings
def rprop(
    learning_rate: float = 1e-2,
    eta_minus: float = 0.5,
    eta_plus: float = 1.2,
    step_size_min: float = 1e-6,
    step_size_max: float = 50.0,
    maximize: bool = False,
) -> Optimiser:
    """Rprop: p ← p − s sign(g), where s grows while g has the same sign, and shrinks when it changes.

    With the gradient g₋ of the step before, s ← η₊ s where g g₋ > 0, and s ← η₋ s and g ← 0 where it is
    < 0; s stays in [`step_size_min`, `step_size_max`]. With `maximize`, g = −dp instead of dp.

    Units:  s ≥ 0, at first `learning_rate`, a number; 0 < η₋ < 1 < η₊
    State:  `prev` g₋, `step_size` s, as in torch.optim.Rprop
    Raises: OptionError for values outside their range
    Source: Riedmiller and Braun 1993, A direct adaptive method for faster backpropagation learning
    """
    first = number("the first step size of rprop", learning_rate)
    low, high = number("step_size_min", step_size_min), number("step_size_max", step_size_max)
    if low > high:
        raise OptionError(
            "rprop must have step_size_min ≤ step_size_max", f"they are {low:g} and {high:g}", "exchange them"
        )
    if not 0 < number("eta_minus", eta_minus) < 1 < number("eta_plus", eta_plus):
        raise OptionError(
            "rprop must have 0 < eta_minus < 1 < eta_plus",
            f"they are {eta_minus} and {eta_plus}",
            "try 0.5, 1.2",
        )

    def put(run: Run, previous: Var, step_size: Var, p: Var, dp: Var) -> tuple[Var, Var, Var]:
        product, zero = dp * previous, ops.zeros_like(dp)
        shorter = ops.select(product < 0, eta_minus * step_size, step_size)
        step_size = ops.clamp(ops.select(product > 0, eta_plus * step_size, shorter), low, high)
        gradient = ops.select(product < 0, zero, dp)
        return gradient, step_size, p - ops.sign(gradient) * step_size

    return optimiser("rprop", put, ("prev", StateArray("step_size", Filled(first))), maximize)
