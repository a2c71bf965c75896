"""The models that `benchmarks.cpu` trains, and their data; `benchmarks/peers` has them too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from benchmarks.nets import MODELS
from catgrad import Dtype, NdArrayType, Task, Term, losses, optimisers
from catgrad.errors import unknown
from catgrad.initialisers import Initialiser, Normal, Uniform
from catgrad.ops.convolution import Convolution
from catgrad.programs.program import lower, operations

PREDICT, STEP, LOOP = "predict", "step", "loop"
"""The measures: the output, one step in one call, and many steps in one call."""


@dataclass(frozen=True)
class Workload:
    """A model with loss and optimiser, described by data that peers without catgrad can read.

    `goal` has the target of the ratio to the fastest peer, for some measures.
    """

    name: str
    title: str
    net: str
    sizes: Mapping[str, Any]
    batch: int
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
        return {"x": inputs, "y": np.eye(classes, dtype=np.float32)[labels] if self.loss == "mse" else labels}

    def parameters(self, seed: int = 0) -> dict[str, np.ndarray]:
        """First values of the parameters, by name."""
        rng = np.random.default_rng(seed)
        return {slot.name: drawn(rng, slot.initial, slot.type.shape) for slot in self.task.parameters}


def drawn(rng: np.random.Generator, initial: Initialiser, shape: tuple[Any, ...]) -> np.ndarray:
    """Values of an initialiser, drawn by NumPy."""
    if isinstance(initial, Normal):
        return rng.standard_normal(shape, np.float32) * np.float32(initial.deviation) + np.float32(
            initial.mean
        )
    if isinstance(initial, Uniform):
        return rng.uniform(initial.low, initial.high, shape).astype(np.float32)
    return np.full(shape, initial.value, np.float32)


GPT_STEPS: Mapping[str, Any] = {"kind": "adamw", "rate": 1e-3, "weight_decay": 0.01}
IRIS: Mapping[str, Any] = {
    "net": "perceptron",
    "sizes": {"widths": (4, 20, 3), "activation": "sigmoid", "last": "sigmoid"},
    "loss": "mse",
    "optimiser": {"rate": 0.5},
    "measures": (STEP, LOOP, PREDICT),
}

WORKLOADS = (
    Workload("iris-150", "iris MLP 4-20-3, batch 150", batch=150, goal={LOOP: 0.26}, **IRIS),
    Workload("iris-16", "iris MLP 4-20-3, batch 16", batch=16, goal={LOOP: 0.26}, **IRIS),
    Workload(
        "mlp", "MLP 784-128-10, batch 64", "perceptron",
        {"widths": (784, 128, 10), "activation": "relu", "last": "identity"}, 64, goal={STEP: 0.85},
    ),
    Workload(
        "lenet", "LeNet-5, batch 32", "lenet", {}, 32, optimiser={"rate": 0.01}, goal={STEP: 0.25}
    ),
    Workload(
        "char-gpt", "char GPT 4 × 128, 4 heads, context 64, batch 12", "gpt",
        {"vocabulary": 65, "depth": 4, "width": 128, "heads": 4, "context": 64},
        12, optimiser=GPT_STEPS, goal={STEP: 0.85},
    ),
    Workload(
        "gpt", "GPT 6 × 384, 6 heads, context 256, batch 4", "gpt",
        {"vocabulary": 65, "depth": 6, "width": 384, "heads": 6, "context": 256},
        4, optimiser=GPT_STEPS, goal={STEP: 0.95},
    ),
    Workload(
        "resnet-8", "ResNet-8 for 3 × 32 × 32, batch 16", "resnet", {}, 16,
        optimiser={"rate": 0.05, "momentum": 0.9}, goal={STEP: 0.9},
    ),
    Workload(
        "gpt-2", "GPT-2 124M, 64 tokens", "tied_gpt",
        {"vocabulary": 50257, "depth": 12, "width": 768, "heads": 12, "context": 64},
        1, goal={PREDICT: 1.25}, measures=(PREDICT,),
    ),
)  # fmt: skip
"""The rows of the table, small ones first."""


def chosen(names: str) -> tuple[Workload, ...]:
    """Return the workloads of these names, with commas between; all for no name. Raises: UnknownName."""
    known = {workload.name: workload for workload in WORKLOADS}
    selected = [name.strip() for name in names.split(",") if name.strip()] or list(known)
    for name in selected:
        if name not in known:
            raise unknown("workload", name, known, "python -m benchmarks.cpu --help")
    return tuple(known[name] for name in selected)
