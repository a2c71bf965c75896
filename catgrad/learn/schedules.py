"""Learning rate schedules: functions of the step, which are part of the emitted step.

An optimiser takes a number, which is a constant in the source, or a schedule. The step t is 0 at
the first update, as in torch.optim.lr_scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log, pi
from typing import Any

from catgrad import ops
from catgrad.errors import OptionError, require_one_of
from catgrad.learn.options import check_integer, number, positive
from catgrad.terms.state import LEARNING_RATE, STEP, learning_rate
from catgrad.terms.structural import Constant, Label
from catgrad.terms.var import Var
from catgrad.types import Dtype, NdArrayType

__all__ = [
    "Schedule", "adjustable", "cosine", "cosine_with_restarts", "cyclic", "exponential_decay", "interpolated",
    "linear", "multi_step_decay", "one_cycle", "polynomial", "step_decay",
]  # fmt: skip


@dataclass(frozen=True)
class Schedule:
    """A learning rate η(t). `rate` maps the step, a float64 number of the term, to the rate.

    One that is not `timed` does not depend on the step, so no step is counted for it.
    """

    name: str
    rate: Callable[[Any], Var]
    timed: bool = True


RATE = "a learning rate"
"""The subject of error messages."""

Rate = float | Schedule
"""The learning rate of an optimiser: a number or a schedule."""

Momentum = float | Schedule
"""The momentum μ or the decay β₁ of an optimiser: a number or a schedule."""


def adjustable(rate: float, name: str = LEARNING_RATE) -> Schedule:
    """A rate η that can be set at any time, as a run number: `learner.state["learning_rate"] = 0.001`.

    Groups that progress a schedule progress the number; schedules with different rates need different names.

    Raises: OptionError unless the name is letters, digits and underscores, with dots between parts
    """
    of_the_run = learning_rate(number(RATE, rate), name)
    return Schedule("adjustable", lambda t: of_the_run(), timed=False)


def step_decay(rate: float, every: int, factor: float = 0.1) -> Schedule:
    """η(t) = η₀ · factor^⌊t / every⌋, as torch.optim.lr_scheduler.StepLR."""
    first, shrink = number(RATE, rate), positive("the factor of step_decay", factor)
    check_integer("the period of step_decay", every, 1)
    return Schedule("step", lambda t: first * _number(t, shrink) ** ops.floor(t / every))


def multi_step_decay(rate: float, milestones: Sequence[int], factor: float = 0.1) -> Schedule:
    """η(t) = η₀ · factorⁿ for n milestones that are ≤ t, as torch.optim.lr_scheduler.MultiStepLR."""
    first, shrink = number(RATE, rate), positive("the factor of multi_step_decay", factor)
    if isinstance(milestones, str) or not isinstance(milestones, Sequence):
        raise OptionError("milestones must be a list of steps", f"it is {milestones!r}", "write [30, 80]")
    for milestone in milestones:
        check_integer("a milestone of multi_step_decay", milestone, 0)

    def at(t: Var) -> Var:
        count = ops.zeros_like(t)
        for milestone in milestones:
            count = count + ops.cast(t >= milestone, t.dtype)
        return first * _number(t, shrink) ** count

    return Schedule("multi_step", at)


def linear(rate: float, steps: int = 5, start: float = 1 / 3, end: float = 1.0) -> Schedule:
    """η(t) = η₀ (start + (end − start) min(t / steps, 1)), as torch.optim.lr_scheduler.LinearLR."""
    first = number(RATE, rate)
    start, end = number("the start of linear", start), number("the end of linear", end)
    check_integer("the steps of linear", steps, 1)
    if max(start, end) > 1:
        raise OptionError("linear must have factors of at most 1", f"they are {start} and {end}", "try 0.1")
    return Schedule("linear", lambda t: first * (start + (end - start) * _progress(t, 0, steps)))


def polynomial(rate: float, steps: int = 5, power: float = 1.0) -> Schedule:
    """η(t) = η₀ (1 − min(t / steps, 1))^power, as torch.optim.lr_scheduler.PolynomialLR."""
    first, power = number(RATE, rate), number("the power of polynomial", power)
    check_integer("the steps of polynomial", steps, 1)
    return Schedule("polynomial", lambda t: first * (1 - _progress(t, 0, steps)) ** power)


def exponential_decay(rate: float, factor: float) -> Schedule:
    """η(t) = η₀ · factorᵗ, as torch.optim.lr_scheduler.ExponentialLR."""
    first, shrink = number(RATE, rate), positive("the factor of exponential_decay", factor)
    return Schedule("exponential", lambda t: first * _number(t, shrink) ** t)


def cosine(rate: float, steps: int, warm_up: int = 0, least: float = 0.0) -> Schedule:
    """Half a cosine from η₀ down to `least` at `steps`, after a linear rise over the first `warm_up`.

    η(t) = η₀ (t + 1) / warm_up before, then least + (η₀ - least) (1 + cos(π u)) / 2, where u goes
    from 0 to 1 between `warm_up` and `steps` and stays there.

    Source: Loshchilov and Hutter 2017 (arXiv:1608.03983), equation 5
    """
    first, least = number(RATE, rate), number("the least rate of cosine", least)
    check_integer("the steps of cosine", steps, 1)
    check_integer("the warm-up of cosine", warm_up, 0)
    if warm_up >= steps or least > first:
        raise OptionError(
            "cosine must have 0 ≤ warm_up < steps and 0 ≤ least ≤ rate",
            f"they are warm_up={warm_up}, steps={steps}, least={least}, rate={rate}",
            "give the number of all steps",
        )

    def at(t: Var) -> Var:
        fallen = _falling(first, least, _progress(t, warm_up, steps))
        if not warm_up:
            return fallen
        return ops.select(t < warm_up, (first / warm_up) * (t + 1), fallen)

    return Schedule("cosine", at)


def cosine_with_restarts(rate: float, period: int, growth: int = 1, least: float = 0.0) -> Schedule:
    """Half a cosine from η₀ down to `least`, again and again, each `growth` times as long as the one before.

    The first takes `period` steps. As torch.optim.lr_scheduler.CosineAnnealingWarmRestarts.

    Source: Loshchilov and Hutter 2017 (arXiv:1608.03983), section 3
    """
    first, least = number(RATE, rate), number("the least rate of cosine_with_restarts", least)
    check_integer("the period of cosine_with_restarts", period, 1)
    check_integer("the growth of cosine_with_restarts", growth, 1)

    def at(t: Var) -> Var:
        if growth == 1:
            return _falling(first, least, t / period - ops.floor(t / period))
        # Half a step later, the quotient is not so close to a whole number that rounding reaches it.
        restarts = ops.floor(ops.log((t + 0.5) * ((growth - 1) / period) + 1) / log(growth))
        scale = _number(t, growth) ** restarts
        begin = (scale - 1) * (period / (growth - 1))
        return _falling(first, least, (t - begin) / (period * scale))

    return Schedule("cosine_with_restarts", at)


SCALES: dict[str, Callable[[Var, Var, float], Var | float]] = {
    "triangular": lambda t, cycle, factor: 1.0,
    "triangular2": lambda t, cycle, factor: _number(t, 0.5) ** cycle,
    "exp_range": lambda t, cycle, factor: _number(t, factor) ** t,
}
"""Heights of the triangles of `cyclic`, at step t in the cycle of this number, from 0."""


def cyclic(
    rate: float,
    top: float,
    up: int = 2000,
    down: int | None = None,
    mode: str = "triangular",
    factor: float = 1.0,
) -> Schedule:
    """Triangles: η rises from η₀ to `top` over `up` steps, and falls over `down`, by default as many.

    Their height is halved in each cycle in the mode "triangular2", and multiplied by factorᵗ in
    "exp_range". As torch.optim.lr_scheduler.CyclicLR with cycle_momentum=False.

    Source: Smith 2017 (arXiv:1506.01186), section 3
    """
    low, height = number(RATE, rate), number("the top of cyclic", top) - number(RATE, rate)
    factor, down = positive("the factor of cyclic", factor), up if down is None else down
    for steps in (up, down):
        check_integer("the steps of cyclic", steps, 1)
    require_one_of("the mode of cyclic", mode, SCALES, "leave it out")

    def at(t: Var) -> Var:
        cycle = ops.floor(t / (up + down))
        position = t - (up + down) * cycle
        share = ops.minimum(position / up, (up + down - position) / down)
        return low + height * share * SCALES[mode](t, cycle, factor)

    return Schedule("cyclic", at)


def one_cycle(rate: float, steps: int, rise: float = 0.3, start: float = 25.0, end: float = 1e4) -> Schedule:
    """Half a cosine up from rate/start to rate over the progress `rise` of the steps, then one down.

    It ends at rate/(start · end), as torch.optim.lr_scheduler.OneCycleLR.

    Source: Smith and Topin 2019 (arXiv:1708.07120), section 4
    """
    top, rise = number(RATE, rate), number("the rise of one_cycle", rise)
    start, end = number("the start of one_cycle", start, 1), number("the end of one_cycle", end, 1)
    check_integer("the steps of one_cycle", steps, 1)
    peak = rise * steps - 1
    if not 0 < peak < steps - 1:
        raise OptionError(
            "one_cycle must rise for more than one step and not for all",
            f"its rise is {rise} of {steps} steps",
            "give the number of all steps",
        )

    knots = (0, top / start), (peak, top), (steps - 1, top / start / end)
    return Schedule("one_cycle", interpolated(knots).rate)


def interpolated(knots: Sequence[tuple[float, float]], is_linear: bool = False) -> Schedule:
    """η(t) from one pair of a step and a rate to the next, by half a cosine or a line; constant after them.

    Raises: OptionError unless there are two such pairs, the second later than the first
    """
    pieces = [(*one, *next_one) for one, next_one in pairwise(knots) if next_one[0] > one[0]]
    if not pieces:
        raise OptionError(
            "interpolated must have knots at two steps", f"they are {[*knots]}", "try [(0, 0.1), (9, 0.0)]"
        )

    def at(t: Var) -> Var:
        *_, last = rates = [_between(t, *piece, is_linear) for piece in pieces]
        for (_, _, end, _), rate in zip(pieces[-2::-1], rates[-2::-1], strict=True):
            last = ops.select(t <= end, rate, last)
        return last

    return Schedule("interpolated", at)


def _between(t: Var, begin: float, first: float, end: float, last: float, is_linear: bool) -> Var:
    progress = _progress(t, begin, end)
    return first + (last - first) * progress if is_linear else _falling(first, last, progress)


def value_now(name: str, value: float | Schedule, dtype: Dtype) -> Var | float:
    """Return a hyperparameter at the current step, as a scalar of the term; a number stays a number.

    It is computed in float64, as powers of a factor near 1 lose digits in float32.
    """
    if not isinstance(value, Schedule):
        return float(value)
    step = ops.cast(STEP(), Dtype.float64) if value.timed else None
    return Label(name)(ops.cast(value.rate(step), dtype))


def _falling(first: float, last: float, progress: Var) -> Var:
    return last + (0.5 * (first - last)) * (1 + ops.cos(pi * progress))


def _progress(t: Var, begin: float, end: float) -> Var:
    """Interpolate: 0 for t at `begin`, 1 at `end`."""
    progress = (t - begin) / (end - begin) if begin else t / end
    return ops.minimum(ops.maximum(progress, ops.zeros_like(t)), _number(t, 1.0))


def _number(like: Var, value: float) -> Var:
    return Constant(NdArrayType((), like.dtype), value)()


def __dir__() -> list[str]:
    return __all__
