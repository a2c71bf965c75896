"""The optimisers of torch.optim that a training skeleton offers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from warnings import warn

from catgrad.dims import Size
from catgrad.errors import CatgradWarning
from catgrad.learn.optimisers import adagrad, adam, adamw, rmsprop, sgd
from catgrad.learn.schedules import Schedule
from catgrad.programs.ports import Kind, Role
from catgrad.programs.program import Program
from catgrad.types import NdArrayType, symbols


@dataclass(frozen=True)
class Optimizers:
    """The hyperparameters of each kind; the task's own kind and learning rate, if torch.optim has it."""

    kinds: Mapping[str, Mapping[str, object]]
    own: str
    rate: float | None


def optimizers(program: Program) -> Optimizers:
    """Return the optimisers that PyTorch has: the task's with its hyperparameters, others with defaults."""
    kinds = {o.name: o.settings for o in (sgd(0.01), adam(), adamw(), rmsprop(), adagrad())}
    name, settings = program.optimiser
    if name not in kinds or not isinstance(settings["learning_rate"], (int, float)):
        return Optimizers(kinds, "", None)
    # Converted to the types of the defaults, so that only numbers and booleans are printed.
    plain = {key: type(usual)(settings[key]) for key, usual in kinds[name].items()}
    return Optimizers({**kinds, name: plain}, name, plain["learning_rate"])


def warn_of_another(program: Program) -> None:
    """Warn if the skeleton trains otherwise than the task: by another optimiser, or at a constant rate."""
    name, settings = program.optimiser
    if not optimizers(program).own:
        kinds = ", ".join(optimizers(program).kinds)
        scheduled = " by a schedule" if isinstance(settings.get("learning_rate"), Schedule) else ""
        warn(
            "a training skeleton has optimisers of torch.optim alone, and none that trains as the task does: "
            f"its optimiser is {name}{scheduled}; choose one of {kinds}, or emit the target torch, "
            "which trains as the task does",
            CatgradWarning,
            stacklevel=4,
        )


def examples(program: Program, size: int = 8) -> list[tuple[NdArrayType, tuple[Size, ...]]]:
    """Return types and shapes of inputs and targets, with this size for each symbol."""
    predict, criterion = program.kinds[Kind.PREDICT], program.kinds[Kind.CRITERION]
    types = [port.type for port in predict.inputs if port.role is Role.INPUT]
    types += [port.type for port in criterion.inputs if port.role is Role.TARGET]
    sizes = dict.fromkeys(symbols(tuple(types)), size)
    return [(type, type.substitute(sizes).shape) for type in types]
