"""Perceptrons, and a recommender: embedding tables before a perceptron."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn


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


class Recommender(Perceptron):
    """A table of rows for each field, and a perceptron of the rows that x selects."""

    def __init__(self, fields: int, vocabulary: int, width: int, widths: Sequence[int]) -> None:
        super().__init__((fields * width, *widths), "relu", "identity")
        self.fields = fields
        for k in range(fields):
            self.add_module(f"table_{k}", nn.Embedding(vocabulary, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of the classes."""
        rows = [getattr(self, f"table_{k}")(x[:, k]) for k in range(self.fields)]
        return super().forward(torch.cat(rows, 1))
