"""The models of `benchmarks.scratch` in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import nn

from benchmarks.peers.torch_nets.transformers import Block


class Gpt(nn.Module):
    """Embeddings, blocks, a norm and a linear map."""

    def __init__(self, vocabulary: int, context: int, width: int, heads: int, depth: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(0.02 * torch.randn(context, width))
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(depth)])
        self.norm, self.scores = nn.LayerNorm(width), nn.Linear(width, vocabulary)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of the next token."""
        z = self.tokens(x) + self.positions
        for block in self.blocks:
            z = block(z)
        return self.scores(self.norm(z))


def iris() -> nn.Module:
    """4-20-3, 163 parameters."""
    return nn.Sequential(nn.Linear(4, 20), nn.Sigmoid(), nn.Linear(20, 3), nn.Sigmoid())


def digits() -> nn.Module:
    """784-64-10, 50,890 parameters."""
    return nn.Sequential(nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))


def cnn() -> nn.Module:
    """Two convolutions with pools and a linear map of images of 12 by 12, 1,066 parameters."""
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(72, 10),
    )


def gpt() -> nn.Module:
    """2 layers, width 32, 4 heads, context 16, 64 tokens: 30,144 parameters."""
    return Gpt(vocabulary=64, context=16, width=32, heads=4, depth=2)


NETS: Mapping[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "iris": (iris, (1, 4)),
    "digits": (digits, (1, 784)),
    "cnn": (cnn, (1, 1, 12, 12)),
    "gpt": (gpt, (1, 16)),
    "dense-16x16": (lambda: nn.Linear(16, 16), (1, 16)),
    "dense-64x64": (lambda: nn.Linear(64, 64), (1, 64)),
    "dense-784x64": (lambda: nn.Linear(784, 64), (1, 784)),
}
"""The constructor of each model, and the shape of its example."""


def net(name: str) -> tuple[nn.Module, torch.Tensor]:
    """Return a model and an example, of the same random numbers at every call; tokens where it embeds."""
    make, shape = NETS[name]
    torch.manual_seed(0)
    module = make().eval()
    return module, torch.randint(64, shape) if name == "gpt" else torch.randn(shape)
