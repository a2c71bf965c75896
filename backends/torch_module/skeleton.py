"""The optimisers of torch.optim that a training skeleton offers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from catgrad.dims import Size
from catgrad.learn.optimisers import adagrad, adam, adamw, rmsprop, sgd
from catgrad.programs.ports import Kind, Role
from catgrad.programs.program import Program
from catgrad.types import NdArrayType, symbols


@dataclass(frozen=True)
class Optimizers:
    """The numbers of each kind; the task's own kind and learning rate, where torch.optim has the like."""

    kinds: Mapping[str, Mapping[str, Any]]
    own: str
    rate: float | None


def optimizers(program: Program) -> Optimizers:
    """Those that PyTorch has too, the task's with its own numbers and the others with their usual ones."""
    kinds = {o.name: o.settings for o in (sgd(0.01), adam(), adamw(), rmsprop(), adagrad())}
    name, settings = program.optimiser
    if name not in kinds or not isinstance(settings["learning_rate"], (int, float)):
        return Optimizers(kinds, "", None)
    # Of the types of the usual ones, so that nothing but numbers and truth values is printed.
    plain = {key: type(usual)(settings[key]) for key, usual in kinds[name].items()}
    return Optimizers({**kinds, name: plain}, name, plain["learning_rate"])


def examples(program: Program, size: int = 8) -> list[tuple[NdArrayType, tuple[Size, ...]]]:
    """The types and shapes of the model's inputs and of its targets, with this size for each symbol."""
    predict, criterion = program.kinds[Kind.PREDICT], program.kinds[Kind.CRITERION]
    types = [port.type for port in predict.inputs if port.role is Role.INPUT]
    types += [port.type for port in criterion.inputs if port.role is Role.TARGET]
    sizes = dict.fromkeys(symbols(tuple(types)), size)
    return [(type, type.substitute(sizes).shape) for type in types]
