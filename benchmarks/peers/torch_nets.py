"""The models of `benchmarks.nets` in PyTorch, with their losses and optimisers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.peers.torch_gpt import Gpt, Vit, places
from benchmarks.peers.worker import Case


class Perceptron(nn.Module):
    """Dense layers with an activation after each."""

    def __init__(self, widths: Sequence[int], activation: str, last: str) -> None:
        super().__init__()
        self.depth, self.names = len(widths) - 1, [activation] * (len(widths) - 2) + [last]
        for k in range(self.depth):
            self.add_module(f"dense_{k}", nn.Linear(widths[k], widths[k + 1]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the last layer's activations."""
        for k, name in enumerate(self.names):
            x = getattr(self, f"dense_{k}")(x)
            x = x if name == "identity" else getattr(torch, name)(x)
        return x


class LeNet(Perceptron):
    """LeNet-5 for images of 28 × 28 pixels."""

    def __init__(self) -> None:
        super().__init__((400, 120, 84, 10), "relu", "identity")
        self.conv_0, self.conv_1 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of ten classes."""
        for conv in (self.conv_0, self.conv_1):
            x = F.relu(F.max_pool2d(conv(x), 2))
        return super().forward(x.flatten(1))


class Normed(nn.Module):
    """A convolution and the norm of its batch."""

    def __init__(self, before: int, channels: int, size: int, stride: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(before, channels, size, stride, size // 2, bias=False)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Convolution, then batch norm."""
        return self.norm(self.conv(x))


class BasicBlock(nn.Module):
    """A residual block: ReLU of two convolutions plus x or its projection."""

    def __init__(self, before: int, channels: int, stride: int) -> None:
        super().__init__()
        self.first, self.second = Normed(before, channels, 3, stride), Normed(channels, channels, 3, 1)
        self.short = nn.Identity() if before == channels else Normed(before, channels, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """X after one block."""
        return F.relu(self.second(F.relu(self.first(x))) + self.short(x))


class Digits(Perceptron):
    """The convolutional network of examples/digits.py for images of 8 × 8 pixels."""

    def __init__(self) -> None:
        super().__init__((64, 10), "relu", "identity")
        self.conv_0, self.conv_1 = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of ten classes."""
        for conv in (self.conv_0, self.conv_1):
            x = F.max_pool2d(F.relu(conv(x)), 2)
        return super().forward(x.flatten(1))


class ResNet(nn.Module):
    """A residual network of basic blocks, by default ResNet-8 for 3 × 32 × 32."""

    def __init__(
        self,
        side: int = 32,
        stem: Sequence[int] = (16, 3, 1),
        pooled: bool = False,
        blocks: Sequence[Sequence[int]] = ((16, 1), (32, 2), (64, 2)),
        classes: int = 10,
    ) -> None:
        super().__init__()
        self.pooled, self.depth = pooled, len(blocks)
        self.stem, self.scores = Normed(3, *stem), nn.Linear(blocks[-1][0], classes)
        before = stem[0]
        for k, (channels, stride) in enumerate(blocks):
            self.add_module(f"block_{k}", BasicBlock(before, channels, stride))
            before = channels

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of the classes."""
        z = F.relu(self.stem(x))
        z = F.max_pool2d(z, 3, 2, 1) if self.pooled else z
        for k in range(self.depth):
            z = getattr(self, f"block_{k}")(z)
        return self.scores(z.mean((2, 3)))


NETS: dict[str, Callable[..., nn.Module]] = {
    "perceptron": Perceptron, "lenet": LeNet, "digits": Digits, "resnet": ResNet, "gpt": Gpt,
    "vit": Vit,
    "tied_gpt": lambda **sizes: Gpt(**sizes, tied=True),
}  # fmt: skip


def net_of(case: Case, training: bool) -> nn.Module:
    """Return the case's model with its first parameters, on its device and in its precision."""
    torch.set_num_threads(case.threads)
    torch.set_float32_matmul_precision("high" if case.precision == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = case.precision == "tf32"
    net = NETS[case.spec["net"]](**case.spec["sizes"]).train(training)
    arrays = {name: torch.tensor(array) for name, array in case.parameters.items()}
    for name, place in places(net, arrays).items():
        place.copy_(arrays[name])
    if case.precision == "bf16":
        net.forward = precise(case, net.forward)  # type: ignore[method-assign]
    return net.to(case.device)


def precise(case: Case, function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function compute in the precision of the case."""
    if case.precision != "bf16":
        return function
    return torch.autocast(case.device, torch.bfloat16)(function)


def batch_of(case: Case) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the batch, x and y."""
    x, y = (torch.tensor(case.arrays[name], device=case.device) for name in ("x", "y"))
    return x, y


def loss_of(case: Case) -> Callable[[Any, Any], torch.Tensor]:
    """Return the case's loss of scores and labels."""
    if case.spec["loss"] == "mse":
        return F.mse_loss
    return precise(case, lambda scores, y: F.cross_entropy(scores.flatten(0, -2), y.flatten()))


def optimiser_of(case: Case, net: nn.Module, captured: bool = False) -> torch.optim.Optimizer:
    """Return the case's optimiser in the form that PyTorch has fused, for a CUDA graph if `captured`."""
    numbers = dict(case.spec["optimiser"])
    kind = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[
        numbers.pop("kind", "sgd")
    ]
    if captured and kind is not torch.optim.SGD:
        numbers["capturable"] = True
    return kind(net.parameters(), numbers.pop("rate"), **numbers, fused=True)
