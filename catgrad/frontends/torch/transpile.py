"""A module of PyTorch as a sprite of Scratch, in one call."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from catgrad.backend import Artifact
from catgrad.frontends.torch.imported import from_torch
from catgrad.learn.checks import Loss
from catgrad.learn.compile import emit
from catgrad.learn.losses import mse
from catgrad.learn.optimiser import Optimiser
from catgrad.learn.optimisers import sgd
from catgrad.learn.task import Task
from catgrad.types import NdArrayType


def transpile(
    module: Any,
    example_input: Any,
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

    `example_input` is a tensor, or several for a module that takes several: what the sprite reads from
    `input`, `input_1` and so on has their shapes. `sig_figs` rounds the weights to so many digits. With an
    `optimiser`, the sprite also learns, from `target` by this loss (of outputs and `labels`). Other options
    are those of the target scratch.

    Raises: as `from_torch`; ArtifactError if the sprite is too large for Scratch, or a file cannot be written
    """
    examples = example_input if isinstance(example_input, (tuple, list)) else (example_input,)
    imported = from_torch(module, *examples, name=name)
    task = Task(imported.model, optimiser or sgd(0.01), loss, name, None if labels is None else tuple(labels))
    weights = {**imported.parameters, **imported.buffers}
    train = optimiser is not None
    artifact = emit(task, "scratch", weights=weights, sig_figs=sig_figs, train=train, **options)
    artifact.write(folder)
    return artifact
