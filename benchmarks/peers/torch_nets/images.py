"""Convolutional networks: LeNet-5, residual networks, and chains of any convolutions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.peers.torch_nets.dense import Perceptron


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


class Stage(nn.Module):
    """A convolution, optionally the norm of its batch, and ReLU."""

    def __init__(
        self, x: Sequence[int], normed: bool, channels: int, size: int, dilation: int = 1, **how: int
    ) -> None:
        super().__init__()
        Conv, Norm = ((nn.Conv1d, nn.BatchNorm1d), (nn.Conv2d, nn.BatchNorm2d))[len(x) - 2]
        padding = dilation * (size // 2)
        self.conv = Conv(x[0], channels, size, padding=padding, dilation=dilation, bias=not normed, **how)
        self.norm = Norm(channels) if normed else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Rectified convolution."""
        return F.relu(self.norm(self.conv(x)))


class Convolutional(nn.Module):
    """A chain of convolutions with ReLU, whose means over space a linear map takes."""

    def __init__(
        self, shape: Sequence[int], stages: Sequence[Mapping[str, int]], normed: bool, classes: int = 10
    ) -> None:
        super().__init__()
        self.depth = len(stages)
        for k, stage in enumerate(stages):
            self.add_module(f"stage_{k}", Stage(shape, normed, **stage))
            shape = (stage["channels"], *shape[1:])
        self.scores = nn.Linear(shape[0], classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of the classes."""
        for k in range(self.depth):
            x = getattr(self, f"stage_{k}")(x)
        return self.scores(x.flatten(2).mean(2))
