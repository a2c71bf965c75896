"""The models that `benchmarks.cuda` trains, in parts that are meant to take at most ten minutes each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from benchmarks.workloads import GPT_STEPS, IRIS, STEP, Workload
from catgrad import Task, mixed_precision
from catgrad.errors import unknown

MODES = ("default", "reduce-overhead", "max-autotune")
"""Modes of torch.compile."""
TRAINKERNEL = "trainkernel"


@dataclass(frozen=True)
class GpuWorkload(Workload):
    """A workload, the part that it belongs to, its device, the precision of its products, and its peers.

    `reduced` has the fields that differ in the simulator. Competitors that train it `alone` on the GPU do so
    one after the other, because its memory does not hold them all.
    """

    part: str = "small"
    device: str = "cuda"
    precision: str = "float32"
    alone: bool = False
    peers: tuple[str, ...] = ("eager", "graph", *(f"whole/{mode}" for mode in MODES), TRAINKERNEL)
    reduced: Mapping[str, Any] = field(default_factory=dict)
    measures: tuple[str, ...] = (STEP,)

    @property
    def precise_task(self) -> Task:
        """The task with products in the precision of the workload, but for TF32, an option of the target."""
        task = replace(self.task, name=f"{self.task.name}_step")  # names that end in bf16 are reserved
        return mixed_precision(task) if self.precision == "bf16" else task

    @property
    def options(self) -> Mapping[str, str]:
        """The target's options."""
        return {"math": "tf32"} if self.precision == "tf32" else {}

    def simulated(self) -> Self:
        """Reduce it to a size that the simulator runs in seconds."""
        return replace(self, device="cpu", **self.reduced)


RELU: Mapping[str, Any] = {"activation": "relu", "last": "identity"}
RESNET_18: Mapping[str, Any] = {
    "side": 224, "stem": (64, 7, 2), "pooled": True, "classes": 1000,
    "blocks": ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)),
}  # fmt: skip
SMALL_RESNET = {"side": 16, "stem": (4, 7, 2), "pooled": True, "classes": 10, "blocks": ((4, 1), (8, 2))}
MOMENTUM: Mapping[str, Any] = {"rate": 0.05, "momentum": 0.9}
CHARACTERS = {"vocabulary": 65, "depth": 4, "width": 128, "heads": 4, "context": 64}
GPT_2 = {"vocabulary": 50257, "depth": 12, "width": 768, "heads": 12, "context": 1024}
SMALL_GPT = {"batch": 2, "sizes": {"vocabulary": 64, "depth": 1, "width": 32, "heads": 2, "context": 16}}


def mlp(
    name: str, title: str, part: str, batch: int, widths: tuple[int, ...], few: tuple[int, ...]
) -> GpuWorkload:
    """One of the perceptrons that trainkernel reports, whose sizes are chosen here."""
    return GpuWorkload(
        name, f"{title} MLP {'-'.join(map(str, widths))}, batch {batch}", "perceptron",
        {"widths": widths, **RELU}, batch, "mse", {"rate": 0.01}, part=part,
        reduced={"batch": 8, "sizes": {"widths": few, **RELU}},
    )  # fmt: skip


def gpt_2(precision: str, title: str, name: str, *peers: str) -> GpuWorkload:
    """GPT-2 124M with AdamW, 32 windows of 1,024 tokens, against some peers."""
    return GpuWorkload(
        name, f"GPT-2 124M, batch 32 × 1024, {title}", "tied_gpt", GPT_2, 32,
        optimiser=GPT_STEPS, part=name, precision=precision, alone=True, reduced=SMALL_GPT, peers=peers,
    )  # fmt: skip


GPU_WORKLOADS = (
    GpuWorkload("iris", "iris MLP 4-20-3, batch 150", batch=150, **(IRIS | {"measures": (STEP,)})),
    GpuWorkload(
        "mnist", "MNIST MLP 784-128-10, batch 128", "perceptron", {"widths": (784, 128, 10), **RELU}, 128,
        reduced={"batch": 8, "sizes": {"widths": (784, 16, 10), **RELU}},
    ),
    GpuWorkload(
        "digits", "digits CNN 8-16 channels, batch 64", "digits", {}, 64,
        optimiser={"kind": "adam", "rate": 3e-3}, reduced={"batch": 4},
    ),
    mlp("mlp-tiny-online", "tiny online", "mlps-online", 16, (32, 64, 16), (32, 64, 16)),
    mlp("mlp-online", "online", "mlps-online", 32, (64, 128, 32), (64, 16, 32)),
    mlp("mlp-small", "small", "mlps", 128, (256, 512, 256), (16, 48, 16)),
    mlp("mlp-medium", "medium", "mlps", 256, (512, 1024, 512), (16, 32, 64)),
    GpuWorkload(
        "resnet-8", "ResNet-8, 3 × 32 × 32, batch 128", "resnet", {}, 128, optimiser=MOMENTUM,
        part="resnet-8",
        reduced={"batch": 2, "sizes": {"side": 8, "stem": (4, 3, 1), "blocks": ((4, 1), (8, 2))}},
    ),
    GpuWorkload(
        "resnet-18", "ResNet-18, 3 × 224 × 224, batch 32", "resnet", RESNET_18, 32, optimiser=MOMENTUM,
        part="resnet-18", reduced={"batch": 2, "sizes": SMALL_RESNET},
    ),
    GpuWorkload(
        "char-gpt", "char GPT 4 × 128, 4 heads, context 64, batch 64", "gpt", CHARACTERS, 64,
        optimiser=GPT_STEPS, part="text", reduced=SMALL_GPT,
    ),
    *(
        gpt_2(precision, title, f"gpt-2-{precision}{more}", *peers)
        for precision, title in (("bf16", "bf16"), ("tf32", "TF32"))
        for more, peers in (
            ("", ("eager", "parts/default", "parts/reduce-overhead")),
            ("-autotuned", ("parts/max-autotune",)),
        )
    ),
)  # fmt: skip
"""The rows of the table, small ones first."""

KERNELS = "kernels"
PARTS = (KERNELS, *dict.fromkeys(workload.part for workload in GPU_WORKLOADS))
"""The parts of a measurement."""


def parts_of(name: str) -> tuple[str, ...]:
    """Return the part of a name; all for none. Raises: UnknownName."""
    if name and name not in PARTS:
        raise unknown("part", name, PARTS, "python -m benchmarks.cuda --help")
    return (name,) if name else PARTS


def workloads_of(part: str) -> tuple[GpuWorkload, ...]:
    """Return the workloads of a part."""
    return tuple(workload for workload in GPU_WORKLOADS if workload.part == part)
