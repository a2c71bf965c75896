"""Parts of updates: the direction, weight decay, denominators, the first step, checks of hyperparameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from typing import ParamSpec

from catgrad import ops
from catgrad.errors import OptionError
from catgrad.learn.optimiser import Optimiser, Run, StateArray, scaled
from catgrad.learn.options import fraction, number
from catgrad.learn.schedules import RATE, Momentum, Rate, Schedule
from catgrad.terms.structural import Constant, Label
from catgrad.terms.var import Var
from catgrad.types import Dtype

P = ParamSpec("P")


def with_settings(make: Callable[P, Optimiser]) -> Callable[P, Optimiser]:
    """Record the arguments of a function as the settings of the optimiser that it makes."""
    signature = inspect.signature(make)

    @wraps(make)
    def made(*args: P.args, **kwargs: P.kwargs) -> Optimiser:
        new = make(*args, **kwargs)
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return replace(new, settings=dict(bound.arguments))

    return made


def optimiser(
    name: str, put: Callable[..., Sequence[Var]], state: tuple[str | StateArray, ...], maximize: bool
) -> Optimiser:
    """Return the optimiser that updates by `put`, of −dp to `maximize`."""

    def ascend(run: Run, *state_p_dp: Var) -> Sequence[Var]:
        *state_p, dp = state_p_dp
        return put(run, *state_p, -dp)

    return Optimiser(name, ascend if maximize else put, state)


def decayed(p: Var, dp: Var, decay: float) -> Var:
    """Return the gradient of the loss + decay · |p|² / 2."""
    return dp + decay * p if decay else dp


def shrunk(run: Run, p: Var, rate: Rate, decay: float) -> Var:
    """Return (1 − η λ) p."""
    if not decay:
        return p
    rest = run.once(("decay", rate, decay, p.dtype), lambda: 1 - run.rate(rate, p.dtype) * decay)
    return scaled(Label("shrinkage")(rest) if isinstance(rest, Var) else rest, p)


def averaged(run: Run, beta: Momentum, mean: Var, x: Var, name: str = "beta1") -> Var:
    """Compute β m + (1−β) x, for a number β or a schedule of this name."""
    if not isinstance(beta, Schedule):
        return beta * mean + (1 - beta) * x
    # In float32, 1 - 0.999 would lose three digits.
    rest = run.number("rest", (name, beta), x.dtype, lambda: 1 - run.setting(name, beta, Dtype.float64))
    return scaled(run.setting(name, beta, x.dtype), mean) + scaled(rest, x)


def above_zero(x: Var, epsilon: float) -> Var:
    """Compute x + ε. Raises: OptionError if ε is rounded to 0 in the dtype, which would cause 0 / 0."""
    if epsilon and not Constant(x.type, epsilon).value:
        raise OptionError(
            f"epsilon must not be 0 in {x.dtype.name}", f"{epsilon} is rounded to it", "try 1e-4"
        )
    return x + epsilon


def at_least(x: Var, bound: float) -> Var:
    """Compute max(x, bound)."""
    return ops.maximum(x, Constant(x.type, bound)())


def at_most(x: Var, bound: Var | float) -> Var:
    """Compute min(x, bound), for a number or a scalar of the term."""
    return ops.minimum(x, Constant(x.type, bound)() if isinstance(bound, float) else bound)


def is_first(run: Run, p: Var) -> Var:
    """Return whether this is the first update, as an array with the shape of p."""
    return ops.broadcast(run.is_first(), p.shape)


def check_ranges(learning_rate: Rate, weight_decay: float, epsilon: float = 0.0, **decays: Momentum) -> None:
    """Raise OptionError unless decays lie in [0, 1), and all other values in their ranges."""
    for name, value in decays.items():
        if not isinstance(value, Schedule):
            fraction(name, value)
    if not isinstance(learning_rate, Schedule):
        number(RATE, learning_rate)
    number("weight decay", weight_decay)
    number("epsilon", epsilon)
