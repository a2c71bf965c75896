"""The protocol of learners: a model in training, with its arrays by name, on every target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from catgrad.errors import not_emitted
from catgrad.learn.task import LEARNER


def require_functions(learner: Any, *names: str) -> None:
    """Raise the error of a learner's function that was not emitted, before anything else is done."""
    for name in names:
        if name in getattr(learner, "lacks", ()):
            getattr(learner, name)()
        if not hasattr(learner, name):
            raise not_emitted(name, [each for each in LEARNER if hasattr(learner, each)])


@runtime_checkable
class Learner(Protocol):
    """Parameters, buffers and optimiser state by name, and the functions that use and change them.

    `CompiledModel().learner(seed=0)` returns one on every target that trains, and `fit`, `evaluate` and
    checkpoints accept any. Tables may be assigned as a whole or array by array. Most also have the halves of
    a step: `grads`, which returns the loss and a gradient by name, and `update`, which takes these. Functions
    that were not emitted raise NotEmitted, which names the call of `emit` that does.
    """

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The arrays that training updates from gradients."""

    @property
    def buffers(self) -> Mapping[str, Any]:
        """The arrays that the model updates itself, such as running statistics."""

    @property
    def state(self) -> Mapping[str, Any]:
        """The arrays that the optimiser keeps between steps."""

    def predict(self, *inputs: Any) -> Any:
        """Return the model's output in evaluation mode; a list if there are several."""

    def loss(self, *inputs_and_targets: Any) -> Any:
        """Return the loss of the model in evaluation mode.

        Raises: NotEmitted if it was not emitted; UnsupportedOp if the target has no such function
        """

    def step(self, *inputs_and_targets: Any) -> Any:
        """Train on one batch; returns the loss before the step."""
