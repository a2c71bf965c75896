"""The model that a front end imports, and its arrays as constants or with initial values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from catgrad import ops
from catgrad.frontends.derived import derived
from catgrad.initialisers import ZEROS, Drawn, Filled, Normal, Stored
from catgrad.learn.checks import Loss
from catgrad.learn.functions import Functions
from catgrad.learn.optimiser import Optimiser, freezing
from catgrad.learn.task import Task
from catgrad.ops.literal import MAX_LITERAL_ELEMENTS, is_uniform
from catgrad.terms.state import Buffer
from catgrad.terms.term import Term
from catgrad.terms.var import Var
from catgrad.types import Array, Dtype, NdArrayType

BLOCK_ELEMENTS = 65536


@dataclass(frozen=True)
class Imported:
    """An imported model X → Y, whose learners begin with the values of the model.

    `parameters` have the names of the model's state_dict, in the order of the model. `buffers` are the
    arrays that training mode updates, and constants of more than 1000 elements, too large for source text.
    `inputs` are the types of X by the names of forward's arguments, and `outputs` the names of Y, where the
    file has them. `inference` is the model in evaluation
    mode where `model` is that in training; parameters that it alone reads are buffers. `aliases` maps further
    names of tied parameters to the first. `notes` are sentences on what the import decided.
    """

    name: str
    model: Term
    parameters: Mapping[str, Array]
    inputs: Mapping[str, NdArrayType]
    buffers: Mapping[str, Array] = field(default_factory=dict)
    inference: Term | None = None
    aliases: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()

    def derived(self, order: int = 1, parameters: bool = False) -> Functions:
        """Return the model in evaluation mode and its derivatives up to an order, as functions by name.

        These are `value`, `jvp` and `vjp`, then `jvp_2` and `vjp_2`, …; for a model to one number `gradient`,
        `hvp`, `hvp_3`, … in place of vjp. The derivatives are by the inputs, with `parameters` also by these,
        which are inputs then.

        Raises: as `frontends.derived.derived`
        """
        model = self.inference or self.model
        return derived(self.name, model, list(self.inputs), self.outputs, order, parameters)

    def task(self, optimiser: Optimiser, loss: Loss, labels: tuple[NdArrayType, ...] | None = None) -> Task:
        """Compose the model with an optimiser and a loss.

        As in PyTorch, no step changes a parameter without a path of derivatives to the loss, not even by
        weight decay.

        Raises: as `Task`
        """
        task = Task(
            self.model, optimiser, loss, self.name, labels, inference=self.inference, notes=self.notes
        )
        left = task.without_gradient
        return replace(task, optimiser=freezing(optimiser, left)) if left else task


def constant(name: str, value: Array, buffers: dict[str, Array]) -> Var:
    """Turn a constant array into a variable: a literal, or a buffer of this name, added to `buffers`.

    A buffer has more than 1000 elements, which are not all equal.
    """
    type = NdArrayType(value.shape, Dtype["bool" if value.dtype == bool else value.dtype.name])
    if value.size <= MAX_LITERAL_ELEMENTS or is_uniform(value):
        return ops.array(value, type.dtype)
    buffers[name] = value
    return Buffer(name, type, Stored(value))()


def alike(value: Array) -> Drawn:
    """Return the distribution of `init`: normal, with the mean and deviation of the module's values."""
    with np.errstate(invalid="ignore", over="ignore"):  # mean and deviation of numbers that are not finite
        mean, deviation = map(float, map(np.float32, _moments(value)))
    if not np.isfinite([mean, deviation]).all():
        return ZEROS
    return Normal(mean, deviation) if deviation else Filled(mean)


def _moments(value: Array) -> tuple[float, float]:
    """Return the mean and the standard deviation of all elements, or zeros if there are none.

    Only one block at a time is in double precision, as copies would have several times the array's size. Sums
    are of differences from the first element, so those of equal elements are 0.
    """
    if not value.size:
        return 0.0, 0.0
    flat = value.reshape(-1)
    first, total, squares = float(flat[0]), 0.0, 0.0
    for start in range(0, flat.size, BLOCK_ELEMENTS):
        block = flat[start : start + BLOCK_ELEMENTS].astype(np.float64) - first
        total, squares = total + float(block.sum()), squares + float(np.dot(block, block))
    mean = total / flat.size
    return first + mean, float(np.sqrt(max(0.0, squares / flat.size - mean * mean)))
