"""Optimisers of `torch.optim` as ours: their parameter groups, hyperparameters, schedulers and state."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isclose
from typing import Any

import numpy as np

from catgrad.dims import numbers
from catgrad.errors import OptionError
from catgrad.frontends.torch.training.optimiser_options import NAMES, known_path, of_group
from catgrad.frontends.torch.training.schedulers import epoch_of, of_schedulers
from catgrad.frontends.torch.types import Module, Optimizer, Optimizers, Scheduler, Schedulers, Tensor
from catgrad.learn.optimiser import Optimiser, begun_later, frozen, grouped, require_optimiser
from catgrad.terms.state import STEP, Slot
from catgrad.types import Array, as_numpy

STATE = {"momentum": "momentum_buffer"}
"""Arrays of state that torch.optim names otherwise."""

ETA_TOLERANCE = 1e-6
"""The relative rounding error of the step size that ASGD keeps, in float32."""


@dataclass(frozen=True)
class Group:
    """A parameter group of an optimiser, with its schedulers, and the state of parameters by name."""

    path: str
    options: Mapping[str, Any]
    number: int
    schedulers: Sequence[Scheduler]
    held: Mapping[str, Mapping[str, Any]]

    @property
    def counts(self) -> dict[str, int]:
        """The number of updates of each parameter."""
        return {name: self._count(held) for name, held in self.held.items()}

    def _count(self, held: Mapping[str, Any]) -> int:
        """Return the number of updates of a parameter; where it is not kept, 1 stands for more."""
        if "step" in held:
            return int(held["step"])
        epoch = epoch_of(self.schedulers) if self.schedulers else 0
        return max(epoch, 1) if any(value is not None for value in held.values()) else 0

    def optimiser(self, begin: int) -> Optimiser:
        """Return the optimiser of the group, whose schedule continues at step `begin`.

        Raises: OptionError as `translated`
        """
        if not self.schedulers:
            return of_group(self.path, self.options)
        scheduled = of_schedulers(self.schedulers, self.number, begin)
        if self.path == "torch.optim.ASGD":
            raise OptionError(
                "ASGD must have a learning rate that is a number, because it uses each rate one step late",
                f"it has the scheduler {type(self.schedulers[0]).__name__}",
                "choose SGD, or leave the scheduler out",
            )
        if self.path == "torch.optim.Rprop":  # Rprop reads its rate once
            del scheduled["lr"]
        return of_group(self.path, {**self.options, **scheduled}, is_scheduled=True)


def several(value: object) -> list[Any]:
    """Return the optimisers or schedulers that were passed: none, one, or a sequence."""
    return [] if value is None else list(value) if isinstance(value, (list, tuple)) else [value]


def continued(
    optimizer: Optimizers, scheduler: Schedulers, module: Module, trained: Iterable[str]
) -> tuple[Optimiser, dict[str, Array]]:
    """Return one of ours that continues optimisers of torch.optim for `trained` parameters, and its state.

    Parameters that they do not have are frozen. One of ours is returned as it is.

    Raises: OptionError if a class, an option or a scheduler has no counterpart, two optimisers have one
            parameter, or the rate changes and no scheduler is given
    """
    optimizers, schedulers = several(optimizer), several(scheduler)
    if len(optimizers) == 1 and not hasattr(optimizers[0], "param_groups"):
        return _of_ours(optimizers[0], schedulers), {}
    chosen = set(trained)
    parameters = {name: p for name, p in module.named_parameters() if name in chosen}
    groups = [group for each in optimizers for group in _groups(each, schedulers, parameters)]
    _require_owners(schedulers, optimizers)
    counts = [(name, count) for group in groups for name, count in group.counts.items()]
    if len(counts) > len(dict(counts)):
        raise OptionError(
            "a parameter must have one optimiser",
            f"{next(n for n, _ in counts if [m for m, _ in counts].count(n) > 1)} is in two groups",
            "pass optimisers of different parameters",
        )
    begin = max(dict(counts).values(), default=0)
    by_name, state = _by_name(groups, begin, parameters)
    if begin:
        state[STEP.name] = np.array(begin, np.int64)
    every = set(by_name.values())
    if len(every) == 1 and parameters.keys() <= by_name.keys():
        return every.pop(), state
    return grouped(lambda slot: by_name.get(slot.name, frozen())), state


def _of_ours(optimiser: Optimiser, schedulers: Sequence[Scheduler]) -> Optimiser:
    if schedulers:
        raise OptionError(
            "a scheduler must be one of an optimiser of torch.optim",
            f"the optimiser is {getattr(optimiser, 'name', optimiser)!r} of catgrad",
            "pass it one of catgrad.learn.schedules as its learning rate",
        )
    return require_optimiser(optimiser)


def _groups(
    optimizer: Optimizer, schedulers: Sequence[Scheduler], parameters: Mapping[str, Tensor]
) -> list[Group]:
    path, names = known_path(optimizer), {id(p): name for name, p in parameters.items()}
    own = [each for each in schedulers if getattr(each, "optimizer", None) is optimizer]
    found = []
    for number, options in enumerate(optimizer.param_groups):
        if "initial_lr" in options and not own:
            raise OptionError(
                f"the scheduler of {path} must be given too, because it changes the learning rate",
                f"group {number} has initial_lr, which a scheduler has written, and there is no scheduler",
                "pass scheduler=, or delete initial_lr from the group to keep the rate of now",
            )
        held = {names[id(p)]: optimizer.state.get(p, {}) for p in options["params"] if id(p) in names}
        found.append(Group(path, options, number, own, held))
    return found


def _require_owners(schedulers: Sequence[Scheduler], optimizers: Sequence[Optimizer]) -> None:
    for scheduler in schedulers:
        owner = getattr(scheduler, "optimizer", None)
        if not any(owner is optimizer for optimizer in optimizers):
            raise OptionError(
                "a scheduler must be one of the optimisers that are passed",
                f"that of {type(scheduler).__name__} is {type(owner).__name__}, another",
                "pass the optimiser that the scheduler was made with",
            )


def _by_name(
    groups: Sequence[Group], begin: int, parameters: Mapping[str, Tensor]
) -> tuple[dict[str, Optimiser], dict[str, Array]]:
    """Return the optimiser of each parameter, and the state of all, from step `begin` on."""
    by_name: dict[str, Optimiser] = {}
    state: dict[str, Array] = {}
    for group in groups:
        chosen, behind = group.optimiser(begin), {begin - count for count in group.counts.values()}
        later = {steps: begun_later(chosen, steps) if steps else chosen for steps in behind}
        for name, count in group.counts.items():
            by_name[name] = later[begin - count]
            if group.path == "torch.optim.ASGD":
                _require_step_size(group, name, count)
            state |= _state(group.held[name], chosen, name, parameters[name])
    return by_name, state


def _require_step_size(group: Group, name: str, count: int) -> None:
    """Raise OptionError if ASGD's next step size is not that of the learning rate of now."""
    options, held = group.options, group.held[name]
    rate = float(options["lr"])
    eta = rate / (1 + options["lambd"] * rate * count) ** options["alpha"]
    if "eta" in held and not isclose(float(held["eta"]), eta, rel_tol=ETA_TOLERANCE):
        raise OptionError(
            "ASGD must have had its options since its last step, because it uses each rate one step late",
            f"its step size for {name} is {float(held['eta']):g}, and now its options give {eta:g}",
            "make one step of it in PyTorch before",
        )


def counterpart(optimiser: Optimiser, parameters: Sequence[Tensor]) -> Optimizer:
    """Return the optimiser of torch.optim with the hyperparameters of one of ours, for these parameters.

    Raises: OptionError if there is none, as for schedules, parameter groups and clipped gradients
    """
    import torch

    classes = {name.lower(): kind for name, kind in vars(torch.optim).items() if inspect.isclass(kind)}
    kind, settings = classes.get(optimiser.name), dict(optimiser.settings)
    options: dict[str, Any] = {}
    for name in inspect.signature(kind).parameters if kind and optimiser.prepare is list else ():
        ours = NAMES.get(name, (name,))
        if all(isinstance(settings.get(option), (int, float)) for option in ours):
            values = [settings.pop(option) for option in ours]
            options[name] = tuple(values) if len(ours) > 1 else values[0]
    if kind is None or "lr" not in options or any(settings.values()):
        raise OptionError(
            "an optimiser of torch.optim must be known, to compare with",
            f"{optimiser.name} with its options has no counterpart",
            "pass optimizer=torch.optim.AdamW(module.parameters(), ...), or another",
        )
    make: Any = kind
    return make(parameters, **options)


def _state(held: Mapping[str, Any], optimiser: Optimiser, name: str, parameter: Tensor) -> dict[str, Array]:
    """Return the state of one parameter, by the names of ours."""
    from catgrad.frontends.torch.aten.operands import type_of

    parameter_slot = Slot(name, type_of(parameter))
    found: dict[str, Array] = {}
    for slot in optimiser.of(parameter_slot).slots(parameter_slot):
        kind = slot.name.removesuffix(f".{name}")
        value = held.get(STATE.get(kind, kind))
        if value is not None:
            found[slot.name] = np.array(as_numpy(value), slot.type.dtype.numpy).reshape(
                numbers(slot.type.shape)
            )
    return found
