"""The models that `benchmarks.cpu` trains; the goal of each is a ratio to the fastest peer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.workloads import CHARACTERS, GPT_STEPS, IRIS, LOOP, PREDICT, STEP, Workload, named


@dataclass(frozen=True)
class CpuWorkload(Workload):
    """A workload, the most rounds in which it is measured, and the required speed-up of two threads."""

    goal: Mapping[str, float] = field(default_factory=lambda: {STEP: 1.0, PREDICT: 1.0})
    most_rounds: int = 11
    speed_up: float | None = None


IRIS_GOALS: Mapping[str, float] = {STEP: 1.0, LOOP: 0.26, PREDICT: 1.0}
ADAM: Mapping[str, Any] = {"kind": "adam", "rate": 1e-3}
IMAGES: Mapping[str, Any] = {"side": 32, "patch": 4, "depth": 4, "width": 192, "classes": 10}
GPT_2: Mapping[str, Any] = {"vocabulary": 50257, "depth": 12, "width": 768, "heads": 12}
SEPARABLE = tuple(
    stage
    for before, after, stride in ((32, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1))
    for stage in (
        {"channels": before, "size": 3, "stride": stride, "groups": before},
        {"channels": after, "size": 1},
    )
)
"""Pairs of a convolution of each channel alone and one of each pixel alone."""
MIXED = (
    {"channels": 32, "size": 3},
    {"channels": 64, "size": 3, "stride": 2, "groups": 8},
    {"channels": 64, "size": 3, "dilation": 2},
    {"channels": 128, "size": 3, "stride": 2, "groups": 8},
    {"channels": 128, "size": 3, "dilation": 2, "groups": 4},
)
SOUND = tuple({"channels": 32 * 2**k, "size": 5, "stride": 2} for k in range(3))


def recurrent(kind: str, depth: int) -> CpuWorkload:
    """Layers of LSTM or GRU with 128 states, for 64 times."""
    return CpuWorkload(
        kind,
        f"{kind.upper()} {depth} × 128, sequence 64, batch 16",
        "recurrent",
        {"kind": kind, "steps": 64, "features": 64, "width": 128, "depth": depth, "classes": 10},
        16,
    )


def convolutions(
    name: str,
    title: str,
    shape: tuple[int, ...],
    stages: tuple[Mapping[str, int], ...],
    goal: float,
    normed: bool = False,
) -> CpuWorkload:
    """A chain of convolutions for batches of 16."""
    return CpuWorkload(
        name,
        f"{title}, batch 16",
        "convolutional",
        {"shape": shape, "stages": stages, "normed": normed},
        16,
        optimiser={"rate": 0.01, "momentum": 0.9},
        goal={STEP: goal, PREDICT: 1.0},
    )


WORKLOADS = (
    CpuWorkload("iris-150", "iris MLP 4-20-3, batch 150", batch=150, goal=IRIS_GOALS, **IRIS),
    CpuWorkload("iris-16", "iris MLP 4-20-3, batch 16", batch=16, goal=IRIS_GOALS, **IRIS),
    CpuWorkload(
        "mlp", "MLP 784-128-10, batch 64", "perceptron",
        {"widths": (784, 128, 10), "activation": "relu", "last": "identity"}, 64,
        goal={STEP: 0.85, PREDICT: 1.0},
    ),
    CpuWorkload(
        "autoencoder", "autoencoder 784-512-256-512-784, batch 128", "perceptron",
        {"widths": (784, 512, 256, 512, 784), "activation": "relu", "last": "identity"}, 128, "mse", ADAM,
    ),
    CpuWorkload(
        "recommender", "recommender, 8 fields × 10,000 × 32, batch 256", "recommender",
        {"fields": 8, "vocabulary": 10_000, "width": 32, "widths": (128, 64, 2)}, 256,
    ),
    CpuWorkload(
        "softmax-32k", "softmax over 32,000 classes, width 256, batch 256", "perceptron",
        {"widths": (256, 256, 32_000), "activation": "relu", "last": "identity"}, 256,
    ),
    recurrent("lstm", 2),
    recurrent("gru", 1),
    CpuWorkload(
        "lenet", "LeNet-5, batch 32", "lenet", {}, 32, optimiser={"rate": 0.01},
        goal={STEP: 0.25, PREDICT: 1.0},
    ),
    convolutions("cnn-1d", "1-D CNN, 8 × 1,024", (8, 1024), SOUND, 1.0),
    convolutions("mixed", "grouped, dilated and strided convolutions, 3 × 32 × 32", (3, 32, 32), MIXED, 0.9),
    convolutions(
        "separable", "depthwise-separable convolutions, 3 × 32 × 32", (3, 32, 32),
        ({"channels": 32, "size": 3}, *SEPARABLE), 0.7, normed=True,
    ),
    CpuWorkload(
        "resnet-8", "ResNet-8 for 3 × 32 × 32, batch 16", "resnet", {}, 16,
        optimiser={"rate": 0.05, "momentum": 0.9}, goal={STEP: 0.7, PREDICT: 1.0},
    ),
    CpuWorkload(
        "unet", "U-Net for 1 × 64 × 64, batch 8", "unet", {"side": 64, "widths": (16, 32, 64)}, 8, "mse",
        ADAM, goal={STEP: 0.9, PREDICT: 1.0}, speed_up=1.7,
    ),
    CpuWorkload(
        "vit", "ViT 4 × 192, 3 heads, 64 tokens, batch 16", "vit", {**IMAGES, "heads": 3}, 16,
        optimiser=GPT_STEPS, speed_up=1.7,
    ),
    CpuWorkload(
        "mixer", "MLP-Mixer 4 × 192, 64 tokens, batch 16", "mixer", {**IMAGES, "hidden": (96, 768)}, 16,
        optimiser=GPT_STEPS,
    ),
    CpuWorkload(
        "char-gpt", "char GPT 4 × 128, 4 heads, context 64, batch 12", "gpt",
        CHARACTERS, 12, optimiser=GPT_STEPS, goal={STEP: 0.85, PREDICT: 1.0}, speed_up=1.7,
    ),
    CpuWorkload(
        "gpt", "GPT 6 × 384, 6 heads, context 256, batch 4", "gpt",
        {"vocabulary": 65, "depth": 6, "width": 384, "heads": 6, "context": 256},
        4, optimiser=GPT_STEPS, goal={STEP: 0.95, PREDICT: 1.0}, most_rounds=5, speed_up=1.7,
    ),
    CpuWorkload(
        "gpt-2", "GPT-2 124M, 64 tokens", "tied_gpt", {**GPT_2, "context": 64}, 1, measures=(PREDICT,),
        most_rounds=7, speed_up=1.7,
    ),
    CpuWorkload(
        "gpt-2-step", "GPT-2 124M, 128 tokens", "tied_gpt", {**GPT_2, "context": 128}, 1,
        optimiser={**GPT_STEPS, "rate": 1e-4}, measures=(STEP,), most_rounds=3, speed_up=1.7,
    ),
)  # fmt: skip
"""The rows of the table, small ones first."""


def chosen(names: str) -> tuple[CpuWorkload, ...]:
    """Return the workloads of these names, with commas between; all for no name. Raises: UnknownName."""
    return named(WORKLOADS, names, "python -m benchmarks.cpu")
