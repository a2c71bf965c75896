"""The learner: a model in training, with its arrays by name, as every target gives it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Learner(Protocol):
    """Parameters, buffers and optimiser state by name, and the functions that use and change them.

    `CompiledModel().learner(seed=0)` returns one on every target that trains, and `fit`, `evaluate` and
    checkpoints take any. Tables may be assigned, whole or array by array. Those of `numpy`, `torch`, `jax`
    and `c` also have the halves of a step: `grads`, which returns the loss and a gradient by name, and
    `update`, which takes these.
    """

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The arrays that training moves along gradients."""

    @property
    def buffers(self) -> Mapping[str, Any]:
        """The arrays that training changes otherwise, such as running statistics."""

    @property
    def state(self) -> Mapping[str, Any]:
        """The arrays that the optimiser keeps between steps."""

    def predict(self, *inputs: Any) -> Any:
        """Return the model's output as it is used, not trained; a list if there are several."""

    def loss(self, *inputs_and_targets: Any) -> Any:
        """Return the loss of the model as it is used.

        Raises: UnsupportedOp if the target has no such function
        """

    def step(self, *inputs_and_targets: Any) -> Any:
        """Train on one batch; returns the loss before the step."""
