"""Schedulers of PyTorch that cycle: their learning rates, and momenta that are high where rates are low."""

from __future__ import annotations

from math import isclose
from typing import Any

from catgrad.errors import OptionError
from catgrad.frontends.torch.types import Scheduler
from catgrad.learn import schedules
from catgrad.learn.schedules import Schedule

ADVICE = "write it as a catgrad.learn.schedules.Schedule, the learning rate of one of catgrad.optimisers"


def cyclic_rate(scheduler: Scheduler, base: float, group: int) -> Schedule:
    """Return the triangles of CyclicLR. Raises: OptionError if their heights are a function of Python"""
    return _triangles(scheduler, base, scheduler.max_lrs[group])


def cyclic_momentum(scheduler: Scheduler, group: int) -> Schedule:
    """Return the triangles of CyclicLR's momentum, upside down. Raises: OptionError unless it is in [0, 1)"""
    top, base = scheduler.max_momentums[group], scheduler.base_momentums[group]
    _require_momenta(scheduler, top, base)
    if scheduler.mode == "exp_range" and scheduler.gamma > 1:
        raise OptionError(
            "a momentum must stay within [0, 1)",
            f"the cycles of CyclicLR grow by gamma={scheduler.gamma:g}",
            "try 0.99, or cycle_momentum=False",
        )
    return _triangles(scheduler, top, base)


def _triangles(scheduler: Scheduler, first: float, peak: float) -> Schedule:
    if scheduler._scale_fn_custom is not None:
        raise OptionError(
            "CyclicLR must have one of its own modes", "it has a scale_fn, a Python function", ADVICE
        )
    up, down = (_whole(scheduler.total_size * s) for s in (scheduler.step_ratio, 1 - scheduler.step_ratio))
    return schedules.cyclic(float(first), float(peak), up, down, scheduler.mode, scheduler.gamma)


def _whole(steps: float) -> Any:
    """Return a number of steps without its rounding error."""
    return round(steps) if isclose(steps, round(steps), rel_tol=1e-9) else steps


def one_cycle_rate(scheduler: Scheduler, base: float, group: int) -> Schedule:
    """Return the phases of OneCycleLR."""
    return _phases(scheduler, group, "lr")


def one_cycle_momentum(scheduler: Scheduler, group: int) -> Schedule:
    """Return the phases of OneCycleLR's momentum. Raises: OptionError unless it is in [0, 1)"""
    options = scheduler.optimizer.param_groups[group]
    _require_momenta(scheduler, options["max_momentum"], options["base_momentum"])
    return _phases(scheduler, group, "momentum")


def _phases(scheduler: Scheduler, group: int, what: str) -> Schedule:
    options, phases = scheduler.optimizer.param_groups[group], scheduler._schedule_phases
    start, end = f"start_{what}", f"end_{what}"
    knots = [(0.0, options[phases[0][start]]), *((p["end_step"], options[p[end]]) for p in phases)]
    pairs = [(float(step), float(value)) for step, value in knots]
    return schedules.interpolated(pairs, scheduler._anneal_func_type == "linear")


def _require_momenta(scheduler: Scheduler, *momenta: float) -> None:
    """Raise OptionError unless momenta are in [0, 1), and not 0 where PyTorch then keeps its buffer."""
    if all(0 <= momentum < 1 and (momentum or scheduler.use_beta1) for momentum in momenta):
        return
    raise OptionError(
        "a momentum must stay within [0, 1), and above 0 where PyTorch has no update of its buffer at 0",
        f"{type(scheduler).__name__} moves it between {' and '.join(f'{float(m):g}' for m in momenta)}",
        "try base_momentum=0.8, max_momentum=0.9, or cycle_momentum=False",
    )
