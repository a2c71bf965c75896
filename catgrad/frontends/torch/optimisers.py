"""Optimisers of `torch.optim` as ours: their class, parameter groups, hyperparameters and state."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from catgrad.dims import numbers
from catgrad.errors import OptionError
from catgrad.learn import optimisers
from catgrad.learn.optimiser import Optimiser, frozen, grouped
from catgrad.terms.state import STEP, Slot
from catgrad.types import Array, as_numpy

NAMES = {"lr": ("learning_rate",), "eps": ("epsilon",), "centered": ("centred",),
         "betas": ("beta1", "beta2"), "etas": ("eta_minus", "eta_plus"),
         "step_sizes": ("step_size_min", "step_size_max")}  # fmt: skip
"""Hyperparameters of torch.optim that have other names here; some are two of ours."""

WITHOUT_MEANING = {"foreach", "fused", "capturable", "differentiable", "initial_lr", "params"}
"""Entries of a group that choose an implementation, or belong to a scheduler, or are no hyperparameters."""

IMPLIED = {("AdamW", "decoupled_weight_decay")}
"""Hyperparameters that are what a class means."""

STATE = {"momentum": "momentum_buffer"}
"""Arrays of state that torch.optim names otherwise."""


def translated(optimiser: Any, module: Any) -> tuple[Optimiser, dict[str, Array]]:
    """Return one of ours that continues an optimiser of torch.optim, and its state by name.

    Parameters that it does not have are frozen.

    Raises: OptionError if its class, or a hyperparameter, has no counterpart
    """
    names = {id(p): name for name, p in module.named_parameters()}
    by_name: dict[str, Optimiser] = {}
    state: dict[str, Array] = {}
    for group in optimiser.param_groups:
        chosen = of_group(type(optimiser).__name__, group)
        for parameter in group["params"]:
            if (name := names.get(id(parameter))) is not None:
                by_name[name] = chosen
                state |= _state(optimiser.state.get(parameter, {}), chosen, name, parameter)
    every = set(by_name.values())
    left = [name for name, p in module.named_parameters() if p.requires_grad and name not in by_name]
    if len(optimiser.param_groups) == 1 and every and not left:
        return every.pop(), state
    return grouped(lambda slot: by_name.get(slot.name, frozen())), state


def of_group(kind: str, group: Mapping[str, Any]) -> Optimiser:
    """Return the optimiser of a parameter group: a class by name, with options as torch.optim names them.

    Raises: OptionError if the class, or an option that has an effect, has no counterpart
    """
    if kind == "Adam" and group.get("decoupled_weight_decay"):
        kind = "AdamW"
    make: Callable[..., Optimiser] | None = getattr(optimisers, kind.lower(), None)
    if make is None:
        raise OptionError(
            "an optimiser must be one of catgrad, or of torch.optim with a counterpart in it",
            f"{kind} has none",
            "choose one of catgrad.optimisers",
        )
    taken = inspect.signature(make).parameters
    options: dict[str, Any] = {}
    for name, value in group.items():
        if name in WITHOUT_MEANING or (kind, name) in IMPLIED:
            continue
        ours = (
            ("epsilon1", "epsilon2")
            if isinstance(value, tuple) and name == "eps"
            else NAMES.get(name, (name,))
        )
        values = value if len(ours) > 1 else (value,)
        for option, each in zip(ours, values, strict=True):
            if option in taken:
                options[option] = each.item() if hasattr(each, "item") else each
            elif each:  # None, 0 or False has no effect
                raise OptionError(
                    f"the options of {kind} must be among {', '.join(taken)}",
                    f"{name} is {value!r}",
                    "leave it out",
                )
    return make(**options)


def counterpart(optimiser: Optimiser, parameters: Sequence[Any]) -> Any:
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
    make: Callable[..., Any] = kind
    return make(parameters, **options)


def _state(held: Mapping[str, Any], optimiser: Optimiser, name: str, parameter: Any) -> dict[str, Array]:
    """Return the state of one parameter, and the number of steps, by the names of ours."""
    from catgrad.frontends.torch.operands import type_of

    slots: Sequence[Slot] = optimiser.of(Slot(name, type_of(parameter))).slots(Slot(name, type_of(parameter)))
    found: dict[str, Array] = {}
    for slot in slots:
        kind = slot.name.removesuffix(f".{name}")
        value = held.get(STATE.get(kind, kind))
        if value is not None:
            found[slot.name] = np.array(as_numpy(value), slot.type.dtype.numpy).reshape(
                numbers(slot.type.shape)
            )
    if "step" in held:
        found[STEP.name] = np.array(int(held["step"]), np.int64)
    return found
