"""A model with loss, optimiser and data, for all competitors of a benchmark."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np

from benchmarks.nets import MODELS
from catgrad import Dim, Dtype, NdArrayType, Task, Term, losses, optimisers
from catgrad.dims import Size
from catgrad.errors import unknown
from catgrad.initialisers import Initialiser, Normal, Uniform
from catgrad.ops.convolution import Convolution
from catgrad.programs.program import lower, operations

PREDICT, STEP, LOOP = "predict", "step", "loop"
"""The measures: the output, one step in one call, and many steps in one call."""


@dataclass(frozen=True)
class Workload:
    """A model with loss and optimiser, described by data that peers without catgrad can read.

    `goal` has the target of the ratio to the fastest peer, for some measures. With the loss `mse`, a model
    whose output has the type of its input learns to return its input.
    """

    name: str
    title: str
    net: str
    sizes: Mapping[str, Any]
    batch: Size
    loss: str = "cross_entropy"
    optimiser: Mapping[str, float] = field(default_factory=lambda: {"rate": 0.1})
    goal: Mapping[str, float] = field(default_factory=dict)
    measures: tuple[str, ...] = (STEP, PREDICT)

    def spec(self) -> dict[str, Any]:
        """The description for a peer."""
        return asdict(self)

    @cached_property
    def model(self) -> Term:
        """The model as a term."""
        return MODELS[self.net](batch=self.batch, **self.sizes)

    @cached_property
    def goal_on_numpy(self) -> float:
        """The target of the ratio to PyTorch eager of a step on NumPy: 2, and 4 with several convolutions."""
        convolutions = sum(isinstance(op, Convolution) for op in operations(lower(self.model)))
        return 4 if convolutions > 1 else 2

    @property
    def task(self) -> Task:
        """The task to compile."""
        numbers = dict(self.optimiser)
        rate, kind = numbers.pop("rate"), numbers.pop("kind", "sgd")
        [scores] = self.model.target.table
        labels = None if self.loss == "mse" else (NdArrayType(scores.shape[:-1], Dtype.int64),)
        optimiser = getattr(optimisers, kind)(rate, **numbers)
        return Task(self.model, optimiser, getattr(losses, self.loss), self.name.replace("-", "_"), labels)

    def data(self, seed: int = 0) -> dict[str, np.ndarray]:
        """Return the batch, x and y, of random numbers."""
        rng = np.random.default_rng(seed)
        [x], [scores] = self.model.source.table, self.model.target.table
        classes = scores.shape[-1]
        if x.dtype.is_floating:
            inputs = rng.standard_normal(x.shape, np.float32)
        else:
            inputs = rng.integers(0, self.sizes["vocabulary"], x.shape)
        labels = rng.integers(0, classes, scores.shape[:-1])
        if self.loss == "mse":
            return {"x": inputs, "y": inputs if x == scores else np.eye(classes, dtype=np.float32)[labels]}
        return {"x": inputs, "y": labels}

    def any_batch(self) -> Self:
        """Return the workload with a symbol as the size of its batch."""
        return replace(self, batch=Dim("batch"))

    def parameters(self, seed: int = 0) -> dict[str, np.ndarray]:
        """First values of the parameters, by name."""
        rng = np.random.default_rng(seed)
        return {slot.name: drawn(rng, slot.initial, slot.type.shape) for slot in self.task.parameters}


def drawn(rng: np.random.Generator, initial: Initialiser, shape: tuple[Size, ...]) -> np.ndarray:
    """Values of an initialiser, drawn by NumPy."""
    if isinstance(initial, Normal):
        return rng.standard_normal(shape, np.float32) * np.float32(initial.deviation) + np.float32(
            initial.mean
        )
    if isinstance(initial, Uniform):
        return rng.uniform(initial.low, initial.high, shape).astype(np.float32)
    return np.full(shape, initial.value, np.float32)


def written(workload: Workload, folder: Path) -> Path:
    """Return the folder in which the competitors find the workload."""
    place = folder / workload.name
    place.mkdir()
    (place / "workload.json").write_text(json.dumps(workload.spec()))
    np.savez(place / "data.npz", **workload.data())
    np.savez(place / "parameters.npz", **workload.parameters())
    return place


Kind = TypeVar("Kind")


def named(workloads: Sequence[Kind], names: str, command: str) -> tuple[Kind, ...]:
    """Return the workloads of these names, with commas between; all for no name. Raises: UnknownName."""
    known = {workload.name: workload for workload in workloads}
    selected = [name.strip() for name in names.split(",") if name.strip()] or list(known)
    for name in selected:
        if name not in known:
            raise unknown("workload", name, known, f"{command} --help")
    return tuple(known[name] for name in selected)


CHARACTERS: Mapping[str, Any] = {"vocabulary": 65, "depth": 4, "width": 128, "heads": 4, "context": 64}
GPT_STEPS: Mapping[str, Any] = {"kind": "adamw", "rate": 1e-3, "weight_decay": 0.01}
IRIS: Mapping[str, Any] = {
    "net": "perceptron",
    "sizes": {"widths": (4, 20, 3), "activation": "sigmoid", "last": "sigmoid"},
    "loss": "mse",
    "optimiser": {"rate": 0.5},
    "measures": (STEP, LOOP, PREDICT),
}
