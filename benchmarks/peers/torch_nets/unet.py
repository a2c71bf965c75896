"""U-Net: convolutions at several scales, down and up, with the larger scale joined on the way up."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional as F


class Twice(nn.Module):
    """Two convolutions with ReLU."""

    def __init__(self, before: int, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Features of one scale."""
        return F.relu(self.second(F.relu(self.first(x))))


class UNet(nn.Module):
    """U-Net for images of one channel, with one scale for each width."""

    def __init__(self, side: int, widths: Sequence[int]) -> None:
        super().__init__()
        self.depth = len(widths)
        for k, (before, channels) in enumerate(pairwise((1, *widths))):
            self.add_module(f"down_{k}", Twice(before, channels))
        for k, (channels, below) in enumerate(pairwise(widths)):
            self.add_module(f"up_{k}", nn.ConvTranspose2d(below, channels, 2, 2))
            self.add_module(f"merge_{k}", Twice(2 * channels, channels))
        self.scores = nn.Conv2d(widths[0], 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """An image."""
        kept = []
        for k in range(self.depth):
            x = getattr(self, f"down_{k}")(F.max_pool2d(x, 2) if k else x)
            kept.append(x)
        for k in reversed(range(self.depth - 1)):
            joined = torch.cat([kept[k], getattr(self, f"up_{k}")(x)], 1)
            x = getattr(self, f"merge_{k}")(joined)
        return self.scores(x)
