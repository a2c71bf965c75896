"""Averaged models of `torch.optim.swa_utils` and timm, as `ema` of the optimiser that trains the module."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from catgrad import ops
from catgrad.errors import OptionError
from catgrad.frontends.imported import Imported
from catgrad.frontends.torch.training.known_classes import known_class, unwrapped
from catgrad.frontends.torch.training.optimisers import several
from catgrad.frontends.torch.types import Module, Optimizer, Optimizers
from catgrad.learn.optimiser import Optimiser
from catgrad.learn.optimisers.averages import ema
from catgrad.learn.schedules import Momentum, Schedule
from catgrad.learn.task import Task
from catgrad.terms.block import any_operation
from catgrad.terms.state import STEP, Update
from catgrad.terms.var import Var
from catgrad.types import Array, as_numpy

SWA_UTILS = "torch.optim.swa_utils"
FUNCTIONS = ("get_swa_avg_fn", "get_swa_multi_avg_fn", "get_ema_avg_fn", "get_ema_multi_avg_fn")
"""Functions of `SWA_UTILS` that return an averaging function."""

NEVER = -1
"""The last step at which the average becomes the weights, if there is none."""


def with_averages(
    optimiser: Optimiser,
    state: Mapping[str, Array],
    averaged: Module,
    optimizer: Optimizers,
    module: Module,
    imported: Imported,
) -> tuple[Optimiser, dict[str, Array]]:
    """Return an optimiser that continues an averaged model, and its state, the averages among it.

    Raises: OptionError if the averaged model is not one of the module, or `ema` does not compute the same
    """
    path = known_class(averaged, CLASSES, "an averaged model", "write catgrad.optimisers.ema(optimiser)")
    _require_no_averaged_buffers(averaged, path, imported)
    arrays = _arrays(averaged, module, imported)
    step, is_apart = int(state.get(STEP.name, 0)), any(np.any(lead) for _, lead in arrays.values())
    is_counted = all("step" in held for each in several(optimizer) for held in _states(each)) and (
        step > 0 or not is_apart
    )
    decay, begin = CLASSES[path](averaged, step, is_apart, is_counted)
    found = dict(state)
    for name, (mean, lead) in arrays.items():
        found |= {name: mean, f"lead.{name}": lead}
    return ema(optimiser, decay, begin), found


def require_leads(task: Task, state: Mapping[str, Array]) -> None:
    """Raise OptionError if a parameter that no step changes differs from its average."""
    known = {slot.name for slot in task.state}
    for parameter in task.parameters:
        name = f"lead.{parameter.name}"
        if name not in known and np.any(state[name]):
            _refuse_constant(parameter.name)


def update(averaged: Module, module: Module, step: int) -> None:
    """Update an averaged model, after `step` updates of the module."""
    if hasattr(averaged, "update_parameters"):
        averaged.update_parameters(module)
    elif hasattr(averaged, "get_decay"):
        averaged.update(module, step)
    else:
        averaged.update(module)


def _of_swa_utils(averaged: Module, step: int, is_apart: bool, is_counted: bool) -> tuple[Momentum, int]:
    """Return decay and begin of `AveragedModel`, which counts its updates."""
    count, decay = int(averaged.n_averaged), _decay(averaged.multi_avg_fn or averaged.avg_fn)
    first = step - count
    mean = Schedule("mean", lambda t: (t - first) / (t - first + 1))
    return mean if decay is None else decay, NEVER if count else step


def _decay(function: Callable[..., Any] | None) -> float | None:
    """Return the decay of an averaging function, or None for the mean of all weights."""
    plain = unwrapped(function)
    for make in FUNCTIONS:
        known = unwrapped(getattr(sys.modules[SWA_UTILS], make)())
        if getattr(plain, "__code__", None) is known.__code__:
            return inspect.getclosurevars(plain).nonlocals.get("decay")
    if function is None:
        return None
    raise OptionError(
        f"the function of AveragedModel must be one of {', '.join(FUNCTIONS)}",
        f"it is {getattr(function, '__qualname__', function)}",
        "write it as a schedule of the decay of catgrad.optimisers.ema",
    )


def _of_version_3(averaged: Module, step: int, is_apart: bool, is_counted: bool) -> tuple[Momentum, int]:
    """Return decay and begin of `ModelEmaV3`, whose updates are numbered by its caller, from 1."""
    first, is_timed = averaged.update_after_step, averaged.use_warmup or averaged.update_after_step > 0
    if is_timed and not is_counted:
        raise OptionError(
            "an optimiser must count its steps, for ModelEmaV3 with use_warmup or update_after_step",
            "there are averages, and no number of steps",
            "average by AveragedModel of torch.optim.swa_utils, which counts",
        )
    begin = first if step <= first and (is_timed or not is_apart) else NEVER
    if not averaged.use_warmup:
        return averaged.decay, begin

    def warm_up(t: Var) -> Var:
        zero = ops.zeros_like(t)
        risen = 1 - (1 + ops.maximum(t - first, zero) / averaged.warmup_gamma) ** -averaged.warmup_power
        return ops.maximum(ops.minimum(risen, zero + averaged.decay), zero + averaged.min_decay)

    return Schedule("warm_up", warm_up), begin


CLASSES: dict[str, Callable[[Module, int, bool, bool], tuple[Momentum, int]]] = {
    f"{SWA_UTILS}.AveragedModel": _of_swa_utils,
    "timm.utils.model_ema.ModelEmaV2": lambda averaged, *_: (averaged.decay, NEVER),
    "timm.utils.model_ema.ModelEmaV3": _of_version_3,
}
"""Functions that return decay and begin of `ema`, by the path of a class.

They take an averaged model, the number of steps that were made, whether averages differ from weights, and
whether that number is exact."""


def _states(optimizer: Optimizer | Optimiser) -> list[Mapping[str, Any]]:
    """Return the state of each parameter that has some; ours have none before they train."""
    return [] if isinstance(optimizer, Optimiser) else [held for held in optimizer.state.values() if held]


def _arrays(averaged: Module, module: Module, imported: Imported) -> dict[str, tuple[Array, Array]]:
    """Return the average of each parameter, and the lead of the parameter over it."""
    own, means = dict(module.named_parameters()), dict(averaged.module.named_parameters())
    types = [{name: (p.shape, p.dtype) for name, p in each.items()} for each in (own, means)]
    if types[0] != types[1]:
        strange = sorted(name for name, _ in types[0].items() ^ types[1].items())
        raise OptionError(
            "an averaged model must have the parameters of the module, in their shapes and dtypes",
            f"{strange[0]} differs",
            "make it of the module that is compiled, as AveragedModel(module)",
        )
    if getattr(averaged, "stochastic_rounding", False) and any(
        "bfloat16" in str(t) for _, t in types[0].values()
    ):
        raise OptionError(
            "averages must be rounded to the nearest",
            "stochastic_rounding is True, and there are parameters of bfloat16",
            "pass stochastic_rounding=False",
        )
    found = {name: (np.array(as_numpy(mean)), as_numpy(own[name])) for name, mean in means.items()}
    for name, (mean, weights) in found.items():
        if name not in imported.parameters and not np.array_equal(mean, weights):
            _refuse_constant(name)
    return {name: (mean, w - mean) for name, (mean, w) in found.items() if name in imported.parameters}


def _refuse_constant(name: str) -> None:
    raise OptionError(
        "parameters that are not trained must be equal to their averages",
        f"{name} differs from its own",
        "copy its average to the module, or train it",
    )


def _require_no_averaged_buffers(averaged: Module, path: str, imported: Imported) -> None:
    """Raise OptionError if buffers are averaged that training changes."""
    is_averaged = getattr(averaged, "use_buffers", not getattr(averaged, "exclude_buffers", False))
    if is_averaged and any_operation(imported.model, lambda op: isinstance(op, Update)):
        raise OptionError(
            "an averaged model must average parameters alone where training changes buffers",
            f"{path} averages buffers too",
            "pass use_buffers=False to AveragedModel, or exclude_buffers=True to ModelEmaV3",
        )
