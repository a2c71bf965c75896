"""The models that `benchmarks.cuda` trains, in parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from benchmarks.workloads import CHARACTERS, GPT_STEPS, IRIS, STEP, Workload
from catgrad import Task, mixed_precision
from catgrad.errors import unknown

MODES = ("default", "reduce-overhead", "max-autotune")
"""Modes of torch.compile."""
TRAINKERNEL = "trainkernel"


FLAGS: Mapping[str, Mapping[str, str]] = {"tf32": {"math": "tf32"}, "cublaslt": {"products": "cublaslt"}}
"""Options of the target by the part of a word of ours."""
FORMS_OF_TORCH = ("eager", "graph", *(f"whole/{mode}" for mode in MODES))
OURS = ("launches", "graph", "many")
IMAGES = (
    "graph/tf32",
    "graph/tf32/channels_last",
    "parts/reduce-overhead/tf32/channels_last",
    "eager",
    "graph",
    "graph/channels_last",
    "parts/reduce-overhead",
)
"""The peers of convolutional networks."""


@dataclass(frozen=True)
class GpuWorkload(Workload):
    """A workload, its part, its device, the precision of its products, and its competitors.

    Its `program` is that of another workload, if this trains the same model against others.

    The words of `ours` and of `peers` are those of benchmarks.peers.cuda_emitted and torch_gpu. `reduced` has
    the fields that differ in the simulator. Competitors that train it `alone` on the GPU do so one after the
    other, because its memory does not hold them all.
    """

    part: str = "small"
    program: str = ""
    device: str = "cuda"
    precision: str = "float32"
    alone: bool = False
    ours: tuple[str, ...] = OURS
    peers: tuple[str, ...] = (*FORMS_OF_TORCH, TRAINKERNEL)
    reduced: Mapping[str, Any] = field(default_factory=dict)
    measures: tuple[str, ...] = (STEP,)

    @property
    def trained(self) -> str:
        """The name of its program."""
        return (self.program or self.name).replace("-", "_")

    @property
    def precise_task(self) -> Task:
        """The task with products in the precision of the workload, but for TF32, an option of the target."""
        task = replace(self.task, name=f"{self.trained}_step")  # names that end in bf16 are reserved
        return mixed_precision(task) if self.precision == "bf16" else task

    def options_of(self, word: str) -> dict[str, str]:
        """Return the target's options for a word of ours."""
        flags = (self.precision, *word.split("/"))
        return {key: value for flag in flags for key, value in FLAGS.get(flag, {}).items()}

    def simulated(self) -> Self:
        """Reduce it to a size that the simulator runs in seconds."""
        return replace(self, device="cpu", **self.reduced)


RELU: Mapping[str, Any] = {"activation": "relu", "last": "identity"}
RESNET_18: Mapping[str, Any] = {
    "side": 224,
    "stem": (64, 7, 2),
    "pooled": True,
    "classes": 1000,
    "blocks": ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)),
}
SMALL_RESNET = {"side": 16, "stem": (4, 7, 2), "pooled": True, "classes": 10, "blocks": ((4, 1), (8, 2))}
TINY_RESNET = {"side": 8, "stem": (4, 3, 1), "blocks": ((4, 1), (8, 2))}
MOMENTUM: Mapping[str, Any] = {"rate": 0.05, "momentum": 0.9}
GPT_2 = {"vocabulary": 50257, "depth": 12, "width": 768, "heads": 12, "context": 1024}
SMALL_GPT = {"batch": 2, "sizes": {"vocabulary": 64, "depth": 1, "width": 32, "heads": 2, "context": 16}}


def mlp(
    name: str, title: str, part: str, batch: int, widths: tuple[int, ...], few: tuple[int, ...]
) -> GpuWorkload:
    """One of the perceptrons that trainkernel reports, whose sizes are chosen here."""
    return GpuWorkload(
        name, f"{title} MLP {'-'.join(map(str, widths))}, batch {batch}", "perceptron",
        {"widths": widths, **RELU}, batch, "mse", {"rate": 0.01}, part=part, ours=(*OURS, "graph/tf32"),
        peers=("graph/tf32", *FORMS_OF_TORCH, TRAINKERNEL),
        reduced={"batch": 8, "sizes": {"widths": few, **RELU}},
    )  # fmt: skip


def gpt_2(precision: str, title: str, name: str, *peers: str) -> GpuWorkload:
    """GPT-2 124M with AdamW, 8 windows of 1,024 tokens, against some peers."""
    return GpuWorkload(
        name, f"GPT-2 124M, batch 8 × 1024, {title}", "tied_gpt", GPT_2, 8, optimiser=GPT_STEPS, part=name,
        program=f"gpt-2-{precision}", precision=precision, alone=True, ours=("graph", "graph/cublaslt"),
        reduced=SMALL_GPT, peers=peers,
    )  # fmt: skip


def char_gpt(precision: str, *flags: str) -> GpuWorkload:
    """The character GPT in a precision, against all forms of PyTorch, and both also with some flags."""
    return GpuWorkload(
        f"char-gpt-{precision}", f"char GPT 4 × 128, 4 heads, context 64, batch 64, {precision}", "gpt",
        CHARACTERS, 64, optimiser=GPT_STEPS, part="text", precision=precision, reduced=SMALL_GPT,
        ours=(*OURS, *(f"graph/{flag}" for flag in ("cublaslt", *flags))),
        peers=(*(f"graph/{flag}" for flag in flags), *FORMS_OF_TORCH),
    )  # fmt: skip


def resnet(
    name: str, title: str, sizes: Mapping[str, Any], batch: int, ours: tuple[str, ...], few: Mapping[str, Any]
) -> GpuWorkload:
    """A residual network, in a part of its own."""
    return GpuWorkload(
        name, f"{title}, batch {batch}", "resnet", sizes, batch, optimiser=MOMENTUM, part=name, ours=ours,
        peers=IMAGES, reduced={"batch": 2, "sizes": few},
    )  # fmt: skip


GPU_WORKLOADS = (
    gpt_2("bf16", "bf16", "gpt-2-bf16", "eager", "parts/default", "parts/reduce-overhead"),
    resnet("resnet-18", "ResNet-18, 3 × 224 × 224", RESNET_18, 32, ("graph", "graph/tf32"), SMALL_RESNET),
    char_gpt("float32", "tf32"),
    char_gpt("bf16"),
    resnet("resnet-8", "ResNet-8, 3 × 32 × 32", {}, 128, ("launches", "graph", "graph/tf32"), TINY_RESNET),
    GpuWorkload("iris", "iris MLP 4-20-3, batch 150", batch=150, **(IRIS | {"measures": (STEP,)})),
    GpuWorkload(
        "mnist",
        "MNIST MLP 784-128-10, batch 128",
        "perceptron",
        {"widths": (784, 128, 10), **RELU},
        128,
        reduced={"batch": 8, "sizes": {"widths": (784, 16, 10), **RELU}},
    ),
    GpuWorkload(
        "digits",
        "digits CNN 8-16 channels, batch 64",
        "digits",
        {},
        64,
        optimiser={"kind": "adam", "rate": 3e-3},
        reduced={"batch": 4},
    ),
    mlp("mlp-tiny-online", "tiny online", "mlps-online", 16, (32, 64, 16), (32, 64, 16)),
    mlp("mlp-online", "online", "mlps-online", 32, (64, 128, 32), (64, 16, 32)),
    mlp("mlp-small", "small", "mlps", 128, (256, 512, 256), (16, 48, 16)),
    mlp("mlp-medium", "medium", "mlps", 256, (512, 1024, 512), (16, 32, 64)),
    gpt_2("tf32", "TF32", "gpt-2-tf32", "eager", "parts/default", "parts/reduce-overhead"),
    gpt_2("bf16", "bf16", "gpt-2-bf16-autotuned", "parts/max-autotune"),
    gpt_2("tf32", "TF32", "gpt-2-tf32-autotuned", "parts/max-autotune"),
)
"""The rows of the table, in the order in which they are measured: a limit of time leaves out the last."""

KERNELS = ("products", "attention", "convolutions", "rows")
"""The parts with kernels alone."""
PARTS = (*KERNELS, *dict.fromkeys(workload.part for workload in GPU_WORKLOADS))
"""The parts of a measurement, in order."""


def parts_of(names: str) -> tuple[str, ...]:
    """Return the parts of names with commas; all for none. Raises: UnknownName."""
    for name in (some := names.split(",") if names else []):
        if name not in PARTS:
            raise unknown("part", name, PARTS, "python -m benchmarks.cuda --help")
    return tuple(some) or PARTS


def workloads_of(part: str) -> tuple[GpuWorkload, ...]:
    """Return the workloads of a part."""
    return tuple(workload for workload in GPU_WORKLOADS if workload.part == part)
