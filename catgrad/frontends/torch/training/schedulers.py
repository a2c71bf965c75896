"""Learning rate schedulers of PyTorch as schedules of ours, which continue where they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isclose, pi
from typing import Any

import numpy as np

from catgrad import ops
from catgrad.errors import OptionError
from catgrad.frontends.torch.training import cycles
from catgrad.frontends.torch.training.cycles import ADVICE
from catgrad.frontends.torch.training.known_classes import known_class
from catgrad.frontends.torch.training.warm_up import factor_of
from catgrad.frontends.torch.types import Scheduler
from catgrad.learn import schedules
from catgrad.learn.schedules import Schedule
from catgrad.programs.program import evaluate
from catgrad.terms.build import build
from catgrad.terms.structural import Constant
from catgrad.terms.var import Var
from catgrad.types import Dtype, NdArrayType

Formula = Callable[[Scheduler, float, int], Schedule]
"""The schedule of a scheduler from its epoch 0 on, for a base rate and the number of a parameter group."""

STEP_TYPE = NdArrayType((), Dtype.float64)

RATE_TOLERANCE = 1e-6
"""The relative difference that the roundings of a scheduler's steps may make."""

OF_PYTORCH = "torch.optim.lr_scheduler."

ON_PLATEAUS = "write for example optimizer=sgd(adjustable(0.1)), and train it by fit(..., plateau=Plateau())"
"""The advice for a rate that depends on losses, not on the step."""


def _constant(scheduler: Scheduler, base: float, group: int) -> Schedule:
    first, last = base * scheduler.factor, Constant(STEP_TYPE, base)

    def at(t: Var) -> Var:
        return ops.select(t < scheduler.total_iters, Constant(STEP_TYPE, first)(), last())

    return Schedule("constant", at)


def _cosine(scheduler: Scheduler, base: float, group: int) -> Schedule:
    """Return half cosines down and up again, as PyTorch continues them after `T_max`."""
    middle, height = (base + scheduler.eta_min) / 2, (base - scheduler.eta_min) / 2
    return Schedule("cosine", lambda t: middle + height * ops.cos(t * (pi / scheduler.T_max)))


def _of_function(scheduler: Scheduler, base: float, group: int) -> Schedule:
    factor = factor_of(scheduler.lr_lambdas[group])
    return Schedule("warm_up", lambda t: base * factor(t))


def _sequential(scheduler: Scheduler, base: float, group: int) -> Schedule:
    for each in scheduler._schedulers:
        if getattr(each, "cycle_momentum", False):
            raise OptionError(
                "a scheduler of a SequentialLR must change the learning rate alone",
                f"{type(each).__name__} has cycle_momentum=True",
                "pass cycle_momentum=False to it, or pass it alone",
            )
    parts = [of_scheduler(each, group) for each in scheduler._schedulers]

    def at(t: Var) -> Var:
        rate: Var = parts[0].rate(t)
        for milestone, part in zip(scheduler._milestones, parts[1:], strict=True):
            rate = ops.select(t >= milestone, part.rate(t - milestone), rate)
        return rate

    return Schedule("sequential", at)


FORMULAS: dict[str, Formula] = {
    "StepLR": lambda s, base, _: schedules.step_decay(base, s.step_size, s.gamma),
    "MultiStepLR": lambda s, base, _: schedules.multi_step_decay(
        base, sorted(s.milestones.elements()), s.gamma
    ),
    "ConstantLR": _constant,
    "LinearLR": lambda s, base, _: schedules.linear(base, s.total_iters, s.start_factor, s.end_factor),
    "ExponentialLR": lambda s, base, _: schedules.exponential_decay(base, s.gamma),
    "PolynomialLR": lambda s, base, _: schedules.polynomial(base, s.total_iters, s.power),
    "CosineAnnealingLR": _cosine,
    "CosineAnnealingWarmRestarts": lambda s, base, _: schedules.cosine_with_restarts(
        base, s.T_0, s.T_mult, s.eta_min
    ),
    "CyclicLR": cycles.cyclic_rate,
    "OneCycleLR": cycles.one_cycle_rate,
    "LambdaLR": _of_function,
    "SequentialLR": _sequential,
    "ChainedScheduler": lambda s, base, group: _product(s._schedulers, group),
}
"""Schedulers by their class in torch.optim.lr_scheduler."""

MOMENTA: dict[str, Callable[[Scheduler, int], Schedule]] = {
    "CyclicLR": cycles.cyclic_momentum,
    "OneCycleLR": cycles.one_cycle_momentum,
}
"""Schedulers that may change the momentum of a group too."""

FACTORS = {"StepLR", "MultiStepLR", "ConstantLR", "LinearLR", "ExponentialLR", "PolynomialLR"}
"""Schedulers that multiply the rate by a factor of their own, and so can be chained."""


def of_schedulers(every: Sequence[Scheduler], group: int, begin: int) -> dict[str, Any]:
    """Return the options of a group that schedulers change, as schedules from step `begin` on.

    They are the learning rate, "lr", and, of some schedulers, "momentum" or the first of "betas".

    Raises: OptionError for a scheduler without a counterpart, or an option that is not what it has computed
    """
    options, now = every[0].optimizer.param_groups[group], epoch_of(every)

    def continued(what: str, schedule: Schedule, value: float) -> Schedule:
        _require_computed(what, schedule, value, group, now)
        return _shifted(schedule, now - begin)

    rate = of_scheduler(every[0], group) if len(every) == 1 else _product(every, group)
    found: dict[str, Any] = {"lr": continued("learning rate", rate, options["lr"])}
    if getattr(every[0], "cycle_momentum", False):
        momentum = MOMENTA[_kind(every[0])](every[0], group)
        if every[0].use_beta1:
            first, *others = options["betas"]
            found["betas"] = (continued("first of betas", momentum, first), *others)
        else:
            found["momentum"] = continued("momentum", momentum, options["momentum"])
    return found


def _require_computed(what: str, schedule: Schedule, value: float, group: int, now: int) -> None:
    [computed] = evaluate(build(schedule.rate, [STEP_TYPE]), np.float64(now))
    if not isclose(computed, value, rel_tol=RATE_TOLERANCE, abs_tol=RATE_TOLERANCE**2):
        raise OptionError(
            f"the {what} must be what its scheduler computes from its first value and its epoch",
            f"group {group} has {float(value):g}, not {float(computed):g}, at epoch {now}",
            "leave it to the scheduler, and call step() once for each step of the optimiser",
        )


def of_scheduler(scheduler: Scheduler, group: int, base: float | None = None) -> Schedule:
    """Return the schedule of a scheduler from its epoch 0 on, for the rate that a group has at first.

    Raises: OptionError as `of_schedulers`
    """
    kind = _kind(scheduler)
    if base is None:
        base = float(scheduler.base_lrs[group]) if hasattr(scheduler, "base_lrs") else 0.0
    return FORMULAS[kind](scheduler, base, group)


def epoch_of(schedulers: Sequence[Scheduler]) -> int:
    """Return the number of steps that schedulers have made."""
    first = schedulers[0]
    return epoch_of(first._schedulers) if _kind(first) == "ChainedScheduler" else int(first.last_epoch)


def _kind(scheduler: Scheduler) -> str:
    paths = [OF_PYTORCH + name for name in FORMULAS]
    advice = ON_PLATEAUS if type(scheduler).__name__ == "ReduceLROnPlateau" else ADVICE
    return known_class(scheduler, paths, "a scheduler", advice).removeprefix(OF_PYTORCH)


def _product(every: Sequence[Scheduler], group: int) -> Schedule:
    """Return the product of schedulers that multiply the rate by factors. Raises: OptionError for others"""
    for each in every:
        if _kind(each) not in FACTORS:
            raise OptionError(
                f"schedulers that work together must be of {', '.join(sorted(FACTORS))}",
                f"one is {type(each).__name__}, which does not multiply the rate by a factor of its own",
                "pass it alone, or in a SequentialLR",
            )
    first = every[0]
    factors = [_shifted(of_scheduler(s, group, 1.0), int(s.last_epoch - first.last_epoch)) for s in every]

    def at(t: Var) -> Var:
        rate = Constant(STEP_TYPE, float(first.base_lrs[group]))()
        for factor in factors:
            rate = rate * factor.rate(t)
        return rate

    return Schedule("product", at)


def _shifted(schedule: Schedule, steps: int) -> Schedule:
    return Schedule(schedule.name, lambda t: schedule.rate(t + steps)) if steps else schedule
