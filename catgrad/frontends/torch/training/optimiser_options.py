"""Classes of optimisers that are ours, and the options of a parameter group by our names."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from catgrad.errors import OptionError
from catgrad.frontends.torch.training.adafactor import transformers_adafactor
from catgrad.frontends.torch.training.known_classes import known_class
from catgrad.frontends.torch.types import Optimizer
from catgrad.learn import optimisers
from catgrad.learn.optimiser import Optimiser
from catgrad.learn.optimisers.adam import adam, adamw
from catgrad.learn.optimisers.muon import muon

Names = Mapping[str, tuple[str, ...]]

NAMES: Names = {
    "lr": ("learning_rate",),
    "eps": ("epsilon",),
    "centered": ("centred",),
    "betas": ("beta1", "beta2"),
    "etas": ("eta_minus", "eta_plus"),
    "step_sizes": ("step_size_min", "step_size_max"),
    "ns_steps": ("iterations",),
}
"""Hyperparameters of torch.optim that have other names here; some are two of ours."""

NOT_OPTIONS = {"params", "param_names", "name"}
"""Entries of a group that name it or its parameters."""

OF_SCHEDULERS = {"initial_lr", "max_lr", "min_lr", "base_momentum", "max_momentum"}
"""Entries of a group that its scheduler has written."""

IMPLEMENTATIONS = {"foreach", "fused", "capturable", "differentiable"}
"""Options that choose one of PyTorch's implementations of the same algorithm."""


@dataclass(frozen=True)
class Known:
    """A class of another library that is one of our optimisers.

    `options` are those that ours takes; `names` are names of options that only this class has,
    `without_effect` options that have none, and `off` options that have none at one value.
    """

    make: Callable[..., Optimiser]
    options: frozenset[str]
    names: Names = field(default_factory=dict)
    without_effect: frozenset[str] = frozenset(IMPLEMENTATIONS)
    off: Mapping[str, Any] = field(default_factory=dict)


def _known(make: Callable[..., Optimiser], **others: Any) -> Known:
    return Known(make, frozenset(inspect.signature(make).parameters), **others)


def _adam(decoupled_weight_decay: bool = False, **options: Any) -> Optimiser:
    return (adamw if decoupled_weight_decay else adam)(**options)


def _adamw(decoupled_weight_decay: bool = True, **options: Any) -> Optimiser:
    return _adam(decoupled_weight_decay, **options)


def _muon(adjust_lr_fn: str | None = None, **options: Any) -> Optimiser:
    return muon(adjust_lr_fn=adjust_lr_fn or "original", **options)


ADAM = frozenset(inspect.signature(adam).parameters) | {"decoupled_weight_decay"}

CLASSES: dict[str, Known] = {
    "torch.optim.SGD": _known(optimisers.sgd),
    "torch.optim.Adam": Known(_adam, ADAM),
    "torch.optim.AdamW": Known(_adamw, ADAM),
    "torch.optim.Adamax": _known(optimisers.adamax),
    "torch.optim.NAdam": _known(optimisers.nadam),
    "torch.optim.RAdam": _known(optimisers.radam),
    "torch.optim.RMSprop": _known(optimisers.rmsprop),
    "torch.optim.Adagrad": _known(optimisers.adagrad),
    "torch.optim.Adadelta": _known(optimisers.adadelta),
    "torch.optim.Adafactor": _known(optimisers.adafactor, names={"eps": ("epsilon1", "epsilon2")}),
    "torch.optim.Rprop": _known(optimisers.rprop),
    "torch.optim.ASGD": _known(optimisers.asgd),
    "torch.optim.Muon": Known(_muon, frozenset(inspect.signature(muon).parameters) - {"others"}),
    "timm.optim.lion.Lion": _known(
        optimisers.lion,
        without_effect=frozenset({"foreach", "max_lr_snapshot"}),
        off={"caution": False, "corrected_weight_decay": False},
    ),
    "transformers.optimization.Adafactor": _known(
        transformers_adafactor,
        names={"lr": ("lr",), "eps": ("eps",)},
        without_effect=frozenset(),
        off={"beta1": None},
    ),
}
"""Our optimisers by the module and name of a class."""


def known_path(optimiser: Optimizer) -> str:
    """Return the path of an optimiser's class. Raises: OptionError if it has no counterpart, or has hooks"""
    advice = "choose one of catgrad.optimisers, or write it as one"
    path = known_class(optimiser, CLASSES, "an optimiser", advice)
    every = vars(sys.modules["torch.optim.optimizer"])
    for kind in ("pre", "post"):
        if (
            getattr(optimiser, f"_optimizer_step_{kind}_hooks", None)
            or every[f"_global_optimizer_{kind}_hooks"]
        ):
            raise OptionError(
                "an optimiser must compute what its class does in its library",
                f"{path} has a hook that is called in each step",
                "remove the hook; write clipping, for example, as catgrad.optimisers.clipped",
            )
    return path


def of_group(path: str, group: Mapping[str, Any], is_scheduled: bool = False) -> Optimiser:
    """Return the optimiser of a parameter group of the class of this path.

    Raises: OptionError if an option is not known to be one of ours, or to have no effect
    """
    known, options = CLASSES[path], dict[str, Any]()
    ignored = NOT_OPTIONS | known.without_effect | (OF_SCHEDULERS if is_scheduled else set())
    for name, value in group.items():
        if name in ignored or (name in known.off and value == known.off[name]):
            continue
        ours = known.names.get(name) or NAMES.get(name, (name,))
        if not known.options.issuperset(ours):
            raise OptionError(
                f"the options of {path} must be known: {', '.join(sorted(known.options))}",
                f"{name} is {value!r}" + (f", not {known.off[name]!r}" if name in known.off else ""),
                "leave it out, or choose one of catgrad.optimisers",
            )
        values = value if len(ours) > 1 else (value,)
        options |= {o: v.item() if hasattr(v, "item") else v for o, v in zip(ours, values, strict=True)}
    return known.make(**options)


def of_name(name: str, options: Mapping[str, Any]) -> Optimiser:
    """Return one of our optimisers by name, with options as torch.optim names them.

    Raises: OptionError if it does not take an option
    """
    make, ours = getattr(optimisers, name), dict[str, Any]()
    taken = inspect.signature(make).parameters
    for option, value in options.items():
        names = NAMES.get(option, (option,))
        if not set(names) <= set(taken):
            raise OptionError(
                f"the options of {name} must be among {', '.join(taken)}",
                f"{option} is {value!r}",
                "leave it out",
            )
        ours |= dict(zip(names, value if len(names) > 1 else (value,), strict=True))
    made: Optimiser = make(**ours)
    return made
