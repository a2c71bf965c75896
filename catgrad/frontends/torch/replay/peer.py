"""Training of a module by PyTorch, with copies of all arrays after each step."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from typing import Any, TypeAlias

import numpy as np

from catgrad.frontends.torch.training import averages, criteria, optimisers
from catgrad.frontends.torch.types import Module, Optimizers, Schedulers, Tensor
from catgrad.learn.optimiser import Optimiser
from catgrad.terms.state import STEP
from catgrad.types import Array, as_numpy

Moment = dict[tuple[str, str], Array]
"""The arrays at the end of a step, by what they are and by name."""

Batch: TypeAlias = "Sequence[Tensor | Array]"
"""The inputs of a step, and its targets."""


class Peer:
    """Copies of a module, its average, optimisers and schedulers, for PyTorch; `is_wide` in float64."""

    def __init__(
        self,
        module: Module,
        learner: Any,
        optimizer: Optimizers,
        loss: Callable[..., Any],
        train: bool,
        is_wide: bool,
        scheduler: Schedulers = None,
        averaged: Module | None = None,
    ) -> None:
        names = set(learner.parameters)
        if isinstance(optimizer, Optimiser):
            self.module = deepcopy(module, _results_of(module))
            own = [p for name, p in self.module.named_parameters() if name in names]
            trained: Any = self.module, [optimisers.counterpart(optimizer, own)], []
        else:
            every = module, optimisers.several(optimizer), optimisers.several(scheduler)
            trained = deepcopy(every, _results_of(module))
        self.module, self.optimizers, self.schedulers = trained
        self.averaged: Any = None if averaged is None else deepcopy(averaged, _results_of(averaged.module))
        self.evaluated = self.module if self.averaged is None else self.averaged.module
        self.steps = int(learner.state.get(STEP.name, 0))
        for name, parameter in self.module.named_parameters():
            parameter.requires_grad_(name in names)
        self.loss = criteria.counterpart(deepcopy(loss))
        self.trains, self.is_wide = train, is_wide
        if is_wide:
            self._widen()

    def _widen(self) -> None:
        for each in (self.module, self.loss, self.evaluated):
            if hasattr(each, "double"):
                each.double()
        for state in (state for each in self.optimizers for state in each.state.values()):
            state |= {name: self._tensor(value) for name, value in state.items() if hasattr(value, "dtype")}

    def train(self, batches: Sequence[Batch], count: int) -> Iterator[Moment]:
        """Yield the arrays before training, and after each step."""
        first = next(self.module.parameters(), None)
        device = None if first is None else first.device
        yield self._tables() | self._predicted(batches[0][:count], device)
        for step, batch in enumerate(batches, 1):
            moment = self._step([self._tensor(x, device) for x in batch], count) | self._tables()
            yield moment | (self._predicted(batch[:count], device) if step == len(batches) else {})

    def _step(self, batch: Batch, count: int) -> Moment:
        # As in an import: in training, submodules keep their modes unless the whole module is in evaluation.
        if not self.trains or not self.module.training:
            self.module.train(self.trains)
        for each in self.optimizers:
            each.zero_grad(set_to_none=True)
        value = self.loss(*_leaves(self.module(*batch[:count])), *batch[count:])
        value.backward()
        gradients = {n: p.grad for n, p in self.module.named_parameters() if p.grad is not None}
        moment = {("grads", name): copied(gradient) for name, gradient in gradients.items()}
        for each in self.optimizers:
            each.step()
        with warnings.catch_warnings():
            # A copy of an optimiser has not the wrapper by which a scheduler sees that it makes steps.
            warnings.simplefilter("ignore", UserWarning)
            for each in self.schedulers:
                each.step()
        self.steps += 1
        if self.averaged is not None:
            averages.update(self.averaged, self.module, self.steps)
        return {("loss", "loss"): copied(value), **moment}

    def _predicted(self, inputs: Batch, device: Any) -> Moment:
        import torch

        modes = [(each, each.training) for each in self.evaluated.modules()]
        kept = [(buffer, buffer.clone()) for buffer in self.evaluated.buffers()]
        self.evaluated.eval()
        with torch.enable_grad():
            outputs = _leaves(self.evaluated(*(self._tensor(x, device) for x in inputs)))
            for buffer, value in kept:  # a prediction keeps no change
                buffer.copy_(value)
        for each, mode in modes:
            each.training = mode
        return named_outputs(outputs)

    def _tables(self) -> Moment:
        named = {"parameters": self.evaluated.named_parameters(), "buffers": self.module.named_buffers()}
        return {(table, name): copied(x) for table, arrays in named.items() for name, x in arrays}

    def _tensor(self, array: Tensor | Array, device: Any = None) -> Tensor:
        import torch

        tensor = torch.as_tensor(array, device=device)
        return tensor.double() if self.is_wide and tensor.is_floating_point() else tensor


def _results_of(module: Module) -> dict[int, Any]:
    """Map tensors that parts keep as attributes and PyTorch does not copy, results of operations, to copies.

    A layer with torch.nn.utils.weight_norm has one, which each call computes anew.
    """
    import torch

    kept = (value for part in module.modules() for value in vars(part).values())
    return {id(x): x.detach().clone() for x in kept if isinstance(x, torch.Tensor) and not x.is_leaf}


def named_outputs(outputs: Sequence[Tensor | Array]) -> Moment:
    """Name the outputs of a model."""
    names = ["output"] if len(outputs) == 1 else [f"output {k}" for k in range(len(outputs))]
    return {("predict", name): copied(y) for name, y in zip(names, outputs, strict=True)}


def copied(x: Tensor) -> Array:
    """Copy an array of any library to NumPy."""
    return np.array(as_numpy(x))


def _leaves(outputs: Any) -> list[Tensor]:
    import torch

    return [y for y in torch.utils._pytree.tree_leaves(outputs) if isinstance(y, torch.Tensor)]
