"""Models of sequences of tokens: the GPT of examples/char_gpt.py, vision transformer, and MLP-Mixer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.peers.torch_nets.names import places


class Block(nn.Module):
    """A transformer block: attention and a perceptron, with norms first and residual connections."""

    def __init__(self, width: int, heads: int, causal: bool = True, gelu: str = "tanh") -> None:
        super().__init__()
        self.heads, self.causal, self.gelu = heads, causal, gelu
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.in_proj, self.out_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.linear1, self.linear2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """X after one block."""
        n, t, d = x.shape
        parts = self.in_proj(self.norm1(x)).split(d, -1)
        q, k, v = (part.view(n, t, self.heads, -1).transpose(1, 2) for part in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal).transpose(1, 2).reshape(n, t, d)
        x = x + self.out_proj(y)
        return x + self.linear2(F.gelu(self.linear1(self.norm2(x)), approximate=self.gelu))


class Gpt(nn.Module):
    """Embeddings, blocks, a norm and a linear map."""

    def __init__(
        self, vocabulary: int, context: int, width: int, heads: int, depth: int, tied: bool = False
    ) -> None:
        super().__init__()
        self.characters = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.zeros(context, width))
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(depth)])
        self.norm, self.scores = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        if tied:
            self.scores.weight = self.characters.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of the next character."""
        z = self.characters(x) + self.positions
        for block in self.blocks:
            z = block(z)
        return self.scores(self.norm(z))

    def take(self, parameters: Mapping[str, torch.Tensor]) -> None:
        """Begin with the parameters of a learner of catgrad."""
        for name, place in places(self, parameters).items():
            place.copy_(parameters[name])


class Vit(nn.Module):
    """A vision transformer: patches, blocks, a norm, and a linear map of the mean of all tokens."""

    def __init__(self, side: int, patch: int, depth: int, width: int, heads: int, classes: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.positions = nn.Parameter(torch.zeros((side // patch) ** 2, width))
        self.blocks = nn.ModuleList([Block(width, heads, False, "none") for _ in range(depth)])
        self.norm, self.scores = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of the classes."""
        z = self.patches(x).flatten(2).transpose(1, 2) + self.positions
        for block in self.blocks:
            z = block(z)
        return self.scores(self.norm(z).mean(1))


class Mixed(nn.Module):
    """A turn of the mixer: perceptrons over tokens and over features, with norms first."""

    def __init__(self, tokens: int, width: int, hidden: Sequence[int]) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.tokens, self.features = TwoLayers(tokens, hidden[0]), TwoLayers(width, hidden[1])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """X after one turn."""
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.features(self.norm2(x))


class TwoLayers(nn.Module):
    """A perceptron with one hidden layer and GELU."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.linear1, self.linear2 = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the last layer."""
        return self.linear2(F.gelu(self.linear1(x)))


class Mixer(nn.Module):
    """MLP-Mixer: patches, turns, a norm, and a linear map of the mean of all tokens."""

    def __init__(
        self, side: int, patch: int, depth: int, width: int, hidden: Sequence[int], classes: int
    ) -> None:
        super().__init__()
        tokens = (side // patch) ** 2
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.blocks = nn.ModuleList([Mixed(tokens, width, hidden) for _ in range(depth)])
        self.norm, self.scores = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of the classes."""
        z = self.patches(x).flatten(2).transpose(1, 2)
        for block in self.blocks:
            z = block(z)
        return self.scores(self.norm(z).mean(1))


def stepper(
    net: Gpt, rate: float, decay: float, norm: float
) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """One step of AdamW with clipped gradients and no decay on vectors."""
    groups = [
        {"params": [p for p in net.parameters() if p.ndim > 1], "weight_decay": decay},
        {"params": [p for p in net.parameters() if p.ndim < 2], "weight_decay": 0.0},
    ]
    optimiser = torch.optim.AdamW(groups, rate)

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimiser.zero_grad()
        loss = F.cross_entropy(net(x).flatten(0, 1), y.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), norm)
        optimiser.step()
        return loss.detach()

    return step
