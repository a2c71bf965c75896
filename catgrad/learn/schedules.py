"""Learning rate schedules: functions of the step, which are part of the emitted step.

An optimiser takes a number, which is a constant in the source, or a schedule. The step t is 0 at
the first update, as in torch.optim.lr_scheduler.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import pi
from typing import Any

from catgrad import ops
from catgrad.errors import OptionError
from catgrad.learn.options import check_integer, number, positive
from catgrad.terms.state import LEARNING_RATE, STEP, learning_rate
from catgrad.terms.structural import Constant, Label
from catgrad.types import Dtype, NdArrayType


@dataclass(frozen=True)
class Schedule:
    """A learning rate η(t). `rate` maps the step, a float64 number of the term, to the rate.

    One that is not `timed` does not depend on the step, so no step is counted for it.
    """

    name: str
    rate: Callable[[Any], Any]
    timed: bool = True


RATE = "a learning rate"
"""The subject of error messages."""

Rate = float | Schedule
"""The learning rate of an optimiser: a number or a schedule."""


def adjustable(rate: float, name: str = LEARNING_RATE) -> Schedule:
    """A rate η that can be set at any time, as a run number: `learner.state["learning_rate"] = 0.001`.

    Groups that progress a schedule progress the number; schedules with different rates need different names.

    Raises: OptionError unless the name is letters, digits and underscores, with dots between parts
    """
    of_the_run = learning_rate(positive(RATE, rate), name)
    return Schedule("adjustable", lambda t: of_the_run(), timed=False)


def step_decay(rate: float, every: int, factor: float = 0.1) -> Schedule:
    """η(t) = η₀ · factor^⌊t / every⌋, as torch.optim.lr_scheduler.StepLR."""
    first, shrink = positive(RATE, rate), positive("the factor of step_decay", factor)
    check_integer("the period of step_decay", every, 1)
    return Schedule("step", lambda t: first * _number(t, shrink) ** ops.floor(t / every))


def exponential_decay(rate: float, factor: float) -> Schedule:
    """η(t) = η₀ · factorᵗ, as torch.optim.lr_scheduler.ExponentialLR."""
    first, shrink = positive(RATE, rate), positive("the factor of exponential_decay", factor)
    return Schedule("exponential", lambda t: first * _number(t, shrink) ** t)


def cosine(rate: float, steps: int, warm_up: int = 0, least: float = 0.0) -> Schedule:
    """Half a cosine from η₀ down to `least` at `steps`, after a linear rise over the first `warm_up`.

    η(t) = η₀ (t + 1) / warm_up before, then least + (η₀ - least) (1 + cos(π u)) / 2, where u goes
    from 0 to 1 between `warm_up` and `steps` and stays there.

    Source: Loshchilov and Hutter 2017 (arXiv:1608.03983), equation 5
    """
    first, least = positive(RATE, rate), number("the least rate of cosine", least)
    check_integer("the steps of cosine", steps, 1)
    check_integer("the warm-up of cosine", warm_up, 0)
    if warm_up >= steps or least > first:
        raise OptionError(
            "cosine must have 0 ≤ warm_up < steps and 0 ≤ least ≤ rate",
            f"they are warm_up={warm_up}, steps={steps}, least={least}, rate={rate}",
            "give the number of all steps",
        )

    def at(t: Any) -> Any:
        fallen = _falling(first, least, _progress(t, warm_up, steps))
        if not warm_up:
            return fallen
        return ops.select(t < warm_up, (first / warm_up) * (t + 1), fallen)

    return Schedule("cosine", at)


def one_cycle(rate: float, steps: int, rise: float = 0.3, start: float = 25.0, end: float = 1e4) -> Schedule:
    """Half a cosine up from rate/start to rate over the progress `rise` of the steps, then one down.

    It ends at rate/(start · end), as torch.optim.lr_scheduler.OneCycleLR.

    Source: Smith and Topin 2019 (arXiv:1708.07120), section 4
    """
    top, rise = positive(RATE, rate), number("the rise of one_cycle", rise)
    start, end = number("the start of one_cycle", start, 1), number("the end of one_cycle", end, 1)
    check_integer("the steps of one_cycle", steps, 1)
    peak = rise * steps - 1
    if not 0 < peak < steps - 1:
        raise OptionError(
            "one_cycle must rise for more than one step and not for all",
            f"its rise is {rise} of {steps} steps",
            "give the number of all steps",
        )

    def at(t: Any) -> Any:
        up = _falling(top / start, top, _progress(t, 0, peak))
        down = _falling(top, top / start / end, _progress(t, peak, steps - 1))
        return ops.select(t <= peak, up, down)

    return Schedule("one_cycle", at)


def rate_now(rate: Rate, dtype: Dtype) -> Any:
    """Return the learning rate at the current step, as a scalar of the term; a float stays a float.

    It is computed in float64, as powers of a factor near 1 lose digits in float32.
    """
    if not isinstance(rate, Schedule):
        return positive(RATE, rate)
    step = ops.cast(STEP(), Dtype.float64) if rate.timed else None
    return Label("rate")(ops.cast(rate.rate(step), dtype))


def _falling(first: float, last: float, progress: Any) -> Any:
    return last + (0.5 * (first - last)) * (1 + ops.cos(pi * progress))


def _progress(t: Any, begin: float, end: float) -> Any:
    """Interpolate: 0 for t at `begin`, 1 at `end`."""
    progress = (t - begin) / (end - begin) if begin else t / end
    return ops.minimum(ops.maximum(progress, ops.zeros_like(t)), _number(t, 1.0))


def _number(like: Any, value: float) -> Any:
    return Constant(NdArrayType((), like.dtype), value)()
