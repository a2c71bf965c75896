"""Convert a PyTorch module to a Scratch sprite in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from catgrad.artifact import Artifact
from catgrad.errors import ArtifactError, OptionError
from catgrad.frontends.torch.imported import Imported, from_torch
from catgrad.learn.checks import Loss
from catgrad.learn.compile import emit
from catgrad.learn.entries import terms_of
from catgrad.learn.losses import mse
from catgrad.learn.optimiser import Optimiser
from catgrad.learn.optimisers import sgd
from catgrad.learn.task import Task
from catgrad.programs.ports import Kind
from catgrad.types import NdArrayType

SETTLED = {
    "weights": "the module has them",
    "functions": "the sprite learns if there is an optimiser",
    "batch": "example_input has as many examples as the sprite takes",
    "predict_batch": "example_input has as many examples as the sprite takes",
}
"""Options of the target scratch that other arguments determine."""


def transpile(
    module: object,
    example_input: object,
    name: str = "model",
    sig_figs: int | None = None,
    *,
    folder: str | Path = ".",
    optimiser: Optimiser | None = None,
    loss: Loss = mse,
    labels: Sequence[NdArrayType] | None = None,
    **options: Any,
) -> Artifact:
    """Write `<name>.sprite3`, a sprite that computes what a module does, and the other files of the target.

    `example_input` is a tensor, or several for several arguments, with the shapes of the lists `input`,
    `input_1` and so on. `sig_figs` rounds weights to significant digits. With an `optimiser`, the sprite also
    trains on `target` by this loss (of outputs and `labels`). Other options are those of the target scratch.

    Raises: as `from_torch`; OptionError for an invalid argument; ArtifactError if a weight is not
            finite, the sprite is too large for Scratch, or a file cannot be written
    """
    _check_arguments({"optimiser": optimiser, "loss": loss}, options)
    examples = example_input if isinstance(example_input, (tuple, list)) else (example_input,)
    imported = from_torch(module, *examples, name=name)
    _check_values(module, imported, optimiser)
    task = Task(imported.model, optimiser or sgd(0.01), loss, name, labels)  # type: ignore[arg-type]
    weights = {**imported.parameters, **imported.buffers}
    given = terms_of(task, [Kind.PREDICT]) if optimiser is None else task  # then a loss need not fit it
    functions = None if given is task else [Kind.PREDICT]
    artifact = emit(given, "scratch", functions, weights=weights, sig_figs=sig_figs, **options)
    artifact.write(folder)
    return artifact


def _check_arguments(parts: Mapping[str, object], options: Mapping[str, object]) -> None:
    """Raise OptionError for losses or optimisers of PyTorch, and options that other arguments determine."""
    for part, value in parts.items():
        if str(getattr(value, "__module__", "")).split(".")[0] == "torch":
            raise OptionError(
                f"the {part} must be one of catgrad",
                "it is one of PyTorch",
                "write for example optimiser=sgd(0.1), loss=mse",
            )
    for option in (each for each in SETTLED if each in options):
        raise OptionError(f"{option} must be left out", "it is given", SETTLED[option])


def _check_values(module: Any, imported: Imported, optimiser: Optimiser | None) -> None:
    """Raise ArtifactError for a weight that is not finite; OptionError if there is nothing to train."""
    import torch

    held = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    for name, array in held.items():
        tensor = torch.view_as_real(array.resolve_conj()) if array.is_complex() else array
        wrong = tensor.isnan() | (tensor.isinf() & (tensor.requires_grad | (tensor > 0)))
        if wrong.any():  # a mask may contain -inf
            raise ArtifactError(
                "the weights of a sprite must be finite",
                f"{name} has {int(wrong.sum())} that are not, such as {tensor[wrong][0].item()}",
                "train the module again with a smaller learning rate",
            )
    if optimiser is not None and not imported.parameters:
        raise OptionError(
            "a module that learns must have parameters that require a gradient",
            "it has none",
            "leave out the optimiser",
        )
