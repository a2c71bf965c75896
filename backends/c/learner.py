"""A learner whose arrays an emitted library changes in place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from catgrad.types import Array

from .bound import Bound, Many
from .harness import initialise
from .held import Held, Holder
from .library import table_of


class Learner(Holder):
    """Parameters, buffers and optimiser state by name, and the functions that use and change them."""

    def __init__(self, model: Any, seed: int = 0) -> None:
        self.model = model()
        program, library = model.program, model.library
        [checked] = model.init.wanted.checked([seed])
        first = initialise(library, program, int(checked))
        self._held = {
            table: Held(table, program.tables.get(table, ()), first.get(table, ()))
            for table in ("parameters", "buffers", "state")
        }
        structs = {table: table_of(arrays) for table, arrays in first.items()}
        self._functions = {
            name: Bound(getattr(self.model, name), self._held, structs)
            for name in ("predict", "loss", "grads", "update", "train_step")
        }
        self._step = self._functions["train_step"]
        self._step_many = Many(self.model.train_step, self._held, structs)
        self._structs = structs

    def __deepcopy__(self, memo: Any) -> Learner:
        other = type(self)(type(self.model))
        for table, held in self._held.items():
            other._held[table].set(held)
        return other

    def predict(self, *inputs: Any) -> Any:
        """The model's output; a list if there are several."""
        outputs = self._functions["predict"](*inputs)
        return outputs[0] if len(outputs) == 1 else outputs

    def loss(self, *inputs_and_targets: Any) -> Any:
        """How far the output is from the targets."""
        [loss] = self._functions["loss"](*inputs_and_targets)
        return loss

    def grads(self, *inputs_and_targets: Any) -> tuple[Any, dict[str, Array]]:
        """The loss on one batch and its gradient by name, to be added up and given to `update`."""
        loss, *gradients = self._functions["grads"](*inputs_and_targets)
        return loss, dict(zip(self.parameters, gradients, strict=True))

    def update(self, gradients: Mapping[str, Any]) -> None:
        """Move the parameters by the optimiser, given a gradient for each."""
        self._functions["update"](*(gradients[name] for name in self.parameters))

    def step(self, *inputs_and_targets: Any) -> Any:
        """Train on one batch; returns the loss before the step."""
        return self._step(*inputs_and_targets)[0]

    def step_many(self, *inputs_and_targets: Any) -> Array:
        """Train on one batch after another, each a row of the arrays; returns the loss before each step."""
        losses: Array = self._step_many(*inputs_and_targets)[0]
        return losses
