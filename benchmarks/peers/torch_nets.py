"""The models of `benchmarks.nets` in PyTorch, with their losses and optimisers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.peers.torch_gpt import Gpt
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


class ResNet(nn.Module):
    """ResNet-8 for 3 × 32 × 32."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.scores = Normed(3, 16, 3, 1), nn.Linear(64, 10)
        self.block_0, self.block_1, self.block_2 = (
            BasicBlock(*sizes) for sizes in ((16, 16, 1), (16, 32, 2), (32, 64, 2))
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of ten classes."""
        z = self.block_2(self.block_1(self.block_0(F.relu(self.stem(x)))))
        return self.scores(z.mean((2, 3)))


NETS: dict[str, Callable[..., nn.Module]] = {
    "perceptron": Perceptron, "lenet": LeNet, "resnet": ResNet, "gpt": Gpt,
    "tied_gpt": lambda **sizes: Gpt(**sizes, tied=True),
}  # fmt: skip


def net_of(case: Case, training: bool) -> nn.Module:
    """Return the case's model with its first parameters."""
    torch.set_num_threads(case.threads)
    net = NETS[case.spec["net"]](**case.spec["sizes"]).train(training)
    arrays = {name: torch.tensor(array) for name, array in case.parameters.items()}
    if isinstance(net, Gpt):
        net.take(arrays)
        return net
    for name, parameter in net.named_parameters():
        parameter.data.copy_(arrays[name].T if parameter.ndim == 2 else arrays[name])
    return net


def batch_of(case: Case) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the batch, x and y."""
    return torch.tensor(case.arrays["x"]), torch.tensor(case.arrays["y"])


def loss_of(case: Case) -> Callable[[Any, Any], torch.Tensor]:
    """Return the case's loss of scores and labels."""
    if case.spec["loss"] == "mse":
        return F.mse_loss
    return lambda scores, y: F.cross_entropy(scores.flatten(0, -2), y.flatten())


def optimiser_of(case: Case, net: nn.Module) -> torch.optim.Optimizer:
    """Return the case's optimiser, in the form that PyTorch has fused for the processor."""
    numbers = dict(case.spec["optimiser"])
    kind = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}[numbers.pop("kind", "sgd")]
    return kind(net.parameters(), numbers.pop("rate"), **numbers, fused=True)
