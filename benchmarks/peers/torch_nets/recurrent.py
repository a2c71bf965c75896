"""Recurrent networks: layers of LSTM or GRU, and scores at every time."""

from __future__ import annotations

import torch
from torch import nn


class Recurrent(nn.Module):
    """Layers of one kind, `lstm` or `gru`, and a linear map of their states."""

    def __init__(self, kind: str, steps: int, features: int, width: int, depth: int, classes: int) -> None:
        super().__init__()
        self.depth, layer = depth, {"lstm": nn.LSTM, "gru": nn.GRU}[kind]
        for k in range(depth):
            self.add_module(f"layer_{k}", layer(width if k else features, width, batch_first=True))
        self.scores = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of the classes at every time."""
        for k in range(self.depth):
            x, _ = getattr(self, f"layer_{k}")(x)
        return self.scores(x)
