"""Schedules with a warm-up of transformers: functions that LambdaLR multiplies the learning rate by.

They are recognised by themselves, without their call: all other functions of Python are unknown.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from functools import partial
from math import pi
from typing import Any

from catgrad import ops
from catgrad.errors import OptionError
from catgrad.frontends.torch.training.cycles import ADVICE
from catgrad.learn.options import number
from catgrad.terms.structural import Constant
from catgrad.terms.var import Var
from catgrad.types import Dtype, NdArrayType

Factor = Callable[[Var], Var]
"""A function from the step t, a float64 scalar of the term, to a factor of the learning rate."""

MODULE = "transformers.optimization"


def _number(value: float) -> Var:
    return Constant(NdArrayType((), Dtype.float64), value)()


def _warmed(steps: float, after: Factor) -> Factor:
    """Return a line from 0 to 1 over the first steps, and another factor after them."""

    def at(t: Var) -> Var:
        later = after(ops.maximum(t, _number(steps)))  # a root or a power may not exist before
        return ops.select(t < steps, t / max(1.0, steps), later) if steps else later

    return at


def _then_linear(num_warmup_steps: float, num_training_steps: float) -> Factor:
    length = max(1.0, num_training_steps - num_warmup_steps)
    return _warmed(num_warmup_steps, lambda t: _above_zero((num_training_steps - t) / length))


def _then_cosine(
    num_warmup_steps: float, num_training_steps: float, num_cycles: float, min_lr_rate: float = 0.0
) -> Factor:
    length = max(1.0, num_training_steps - num_warmup_steps)

    def after(t: Var) -> Var:
        wave = _wave((num_cycles * 2) * ((t - num_warmup_steps) / length))
        return _above_zero(wave * (1 - min_lr_rate) + min_lr_rate)

    return _warmed(num_warmup_steps, after)


def _then_cosine_with_restarts(
    num_warmup_steps: float, num_training_steps: float, num_cycles: float
) -> Factor:
    length = max(1.0, num_training_steps - num_warmup_steps)

    def after(t: Var) -> Var:
        progress = (t - num_warmup_steps) / length
        cycles = num_cycles * progress
        return ops.select(progress >= 1, _number(0.0), _wave(cycles - ops.floor(cycles)))

    return _warmed(num_warmup_steps, after)


def _then_polynomial(
    num_warmup_steps: float, num_training_steps: float, lr_end: float, power: float, lr_init: float
) -> Factor:
    length = num_training_steps - num_warmup_steps
    if length <= 0 or lr_init <= 0:
        raise OptionError(
            "a polynomial decay must have steps after its warm-up, and begin above 0",
            f"it has {length:g} steps after {num_warmup_steps:g}, and begins at {lr_init:g}",
            "give num_training_steps of the whole training",
        )

    def after(t: Var) -> Var:
        remaining = _above_zero(1 - (t - num_warmup_steps) / length)
        decay = (lr_init - lr_end) * remaining**power + lr_end
        return ops.select(t > num_training_steps, _number(lr_end), decay) / lr_init

    return _warmed(num_warmup_steps, after)


def _then_inverse_root(num_warmup_steps: float, timescale: float) -> Factor:
    if not timescale:
        raise OptionError("the timescale of an inverse root must not be 0", "it is 0", "leave it out")
    shift = timescale - num_warmup_steps
    return _warmed(num_warmup_steps, lambda t: 1 / ops.sqrt((t + shift) / timescale))


def _wave(cycles: Var) -> Var:
    return 0.5 * (1 + ops.cos(pi * cycles))


def _above_zero(factor: Var) -> Var:
    return ops.maximum(factor, _number(0.0))


WARM_UPS: Mapping[str, Callable[..., Factor]] = {
    "_get_constant_lambda": lambda: lambda t: _number(1.0),
    "_get_constant_schedule_with_warmup_lr_lambda": lambda num_warmup_steps: _warmed(
        num_warmup_steps, lambda t: _number(1.0)
    ),
    "_get_linear_schedule_with_warmup_lr_lambda": _then_linear,
    "_get_cosine_schedule_with_warmup_lr_lambda": _then_cosine,
    "_get_cosine_with_hard_restarts_schedule_with_warmup_lr_lambda": _then_cosine_with_restarts,
    "_get_polynomial_decay_schedule_with_warmup_lr_lambda": _then_polynomial,
    "_get_inverse_sqrt_schedule_lr_lambda": _then_inverse_root,
}
"""Functions of transformers.optimization, of the keywords that they are given before."""


def factor_of(function: Callable[[int], float]) -> Factor:
    """Return a function of LambdaLR as a factor. Raises: OptionError if it is none of transformers'"""
    inner, keywords = function, dict[str, Any]()
    if type(function) is partial and not function.args:
        inner, keywords = function.func, function.keywords
    name = getattr(inner, "__name__", type(inner).__name__)
    place = getattr(inner, "__module__", type(inner).__module__)
    known = WARM_UPS.get(name) if getattr(sys.modules.get(MODULE), name, None) is inner else None
    if known is None or not _takes(known, keywords):
        raise OptionError(
            "LambdaLR must be one of transformers' schedules with a warm-up, because a program has no Python",
            f"its function is {name} of {place}" + (f" with {', '.join(keywords)}" if keywords else ""),
            ADVICE,
        )
    return known(**{key: number(f"{key} of {name}", value) for key, value in keywords.items()})


def _takes(make: Callable[..., Factor], keywords: Mapping[str, Any]) -> bool:
    try:
        inspect.signature(make).bind(**keywords)
    except TypeError:
        return False
    return True
