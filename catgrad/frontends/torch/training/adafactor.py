"""Adafactor as transformers has it, whose options are others than those of PyTorch's."""

from __future__ import annotations

from typing import Any

from catgrad import ops
from catgrad.learn.optimiser import Optimiser, Run, scaled
from catgrad.learn.optimisers.adafactor import estimate, factored, means_of, rms
from catgrad.learn.optimisers.updates import at_least, at_most, with_settings
from catgrad.learn.optimisers.updates import optimiser as optimiser_of
from catgrad.learn.options import number, positive
from catgrad.learn.schedules import RATE, Rate, Schedule
from catgrad.types import Dtype

LARGEST_STEP = 1e-2
"""The bound of relative steps, without a warm-up."""

WARM_UP = 1e-6
"""The growth of the bound in each step, with a warm-up."""


@with_settings
def transformers_adafactor(
    lr: Rate | None,
    eps: tuple[float, float],
    clip_threshold: float,
    decay_rate: float,
    weight_decay: float,
    scale_parameter: bool,
    relative_step: bool,
    warmup_init: bool,
) -> Optimiser:
    """Adafactor: p ← (1 − α λ) p − α u / max(1, rms(u) / d), with u = g / √v, g = dp.

    v is an average of g² + ε₁, or R C / mean(R) for more axes; α = η max(ε₂, rms(p)) with `scale_parameter`,
    else η; and η = min(10⁻², 1/√t) with `relative_step`, or min(10⁻⁶ t, 1/√t) with `warmup_init` too.

    Units:  as `catgrad.optimisers.adafactor`
    State:  `step` t; `exp_avg_sq_row` R and `exp_avg_sq_col` C, or `exp_avg_sq` v
    Raises: OptionError for values outside their range
    Source: Shazeer and Stern 2018 (arXiv:1804.04235), algorithms 4 to 6
    """
    first, second = (number("epsilon of Adafactor", each) for each in eps)
    bound, decay = positive("clip_threshold", clip_threshold), number("weight decay", weight_decay)

    given = lr if isinstance(lr, Schedule) else None if relative_step else number(RATE, lr)

    def step_size(run: Run, dtype: Dtype) -> Any:
        if given is not None:
            return run.rate(given, dtype)
        return run.number("step_size", ("relative", warmup_init), dtype, lambda: relative(run))

    def relative(run: Run) -> Any:
        return at_most(1 / ops.sqrt(run.count()), WARM_UP * run.count() if warmup_init else LARGEST_STEP)

    def put(run: Run, *state_p_dp: Any) -> Any:
        *state, p, dp = state_p_dp
        weight = run.number("weight", decay_rate, p.dtype, lambda: run.count() ** decay_rate)
        means = means_of(ops.square(dp) + first)
        state = [old + scaled(weight, new - old) for old, new in zip(state, means, strict=True)]
        update = dp / ops.sqrt(estimate(state, p.shape, 0.0))
        size = step_size(run, p.dtype)
        alpha = size * ops.cast(at_least(rms(p), second), p.dtype) if scale_parameter else size
        change = scaled(alpha / ops.cast(at_least(rms(update) / bound, 1.0), p.dtype), update)
        return *state, (scaled(1 - alpha * decay, p) if decay else p) - change

    return factored(
        optimiser_of("adafactor", put, ("exp_avg_sq",), maximize=False), "exp_avg_sq_row", "exp_avg_sq_col"
    )
