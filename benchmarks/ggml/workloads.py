"""The models that `benchmarks.ggml` trains; the goal of each names the peer that a ratio is to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.workloads import CHARACTERS, GPT_STEPS, STEP, Workload, named

OURS, GGML_OPT, PYTORCH = "catgrad ggml", "ggml-opt", "PyTorch eager"


@dataclass(frozen=True)
class GgmlWorkload(Workload):
    """A workload, the number of steps in one call, and the tolerance of parameters after ten steps.

    That of AdamW is wider: it divides gradients by their size, and magnifies rounding errors of small ones.
    """

    steps: int = 10
    tolerance: float = 1e-5
    measures: tuple[str, ...] = (STEP,)


def mlp(
    name: str, title: str, batch: int, widths: tuple[int, ...], steps: int, goal: Mapping[str, float]
) -> GgmlWorkload:
    """A perceptron with ReLU, cross entropy and SGD, which ggml can derive too."""
    sizes = {"widths": widths, "activation": "relu", "last": "identity"}
    return GgmlWorkload(name, title, "perceptron", sizes, batch, goal=goal, steps=steps)


VIT: Mapping[str, Any] = {"side": 32, "patch": 4, "depth": 12, "width": 192, "heads": 3, "classes": 10}
GGML_WORKLOADS = (
    mlp("iris-16", "MLP 4-20-3, batch 16", 16, (4, 20, 3), 512, {GGML_OPT: 1.1}),
    mlp("iris-150", "MLP 4-20-3, batch 150", 150, (4, 20, 3), 512, {GGML_OPT: 1.1}),
    mlp("mlp", "MLP 784-128-10, batch 64", 64, (784, 128, 10), 32, {GGML_OPT: 1.05, PYTORCH: 1.0}),
    GgmlWorkload(
        "char-gpt", "char GPT 4 × 128, context 64, batch 12", "gpt", CHARACTERS, 12, optimiser=GPT_STEPS,
        goal={PYTORCH: 1.3}, tolerance=1e-4,
    ),
    GgmlWorkload(
        "vit", "ViT-Tiny, 12 × 192, 64 tokens, batch 8", "vit", VIT, 8, optimiser={"rate": 0.05},
        goal={PYTORCH: 1.5},
    ),
)  # fmt: skip
"""The rows of the table, small ones first."""


def workloads(names: str) -> tuple[GgmlWorkload, ...]:
    """Return the workloads of these names, with commas between; all for no name. Raises: UnknownName."""
    return named(GGML_WORKLOADS, names, "python -m benchmarks.ggml")
