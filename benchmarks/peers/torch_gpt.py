"""The character GPT of examples/char_gpt.py in PyTorch, with autograd and torch.optim."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

NAMES = {
    "characters.weight": "characters.weight", "positions.weight": "positions",
    "norm.weight": "norm.weight", "norm.bias": "norm.bias", "scores.weight": "scores.weight",
}  # fmt: skip


class Block(nn.Module):
    """A transformer block: attention and a perceptron, with norms first and residual connections."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.in_proj, self.out_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.linear1, self.linear2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """X after one block."""
        n, t, d = x.shape
        parts = self.in_proj(self.norm1(x)).split(d, -1)
        q, k, v = (part.view(n, t, self.heads, -1).transpose(1, 2) for part in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(n, t, d)
        x = x + self.out_proj(y)
        return x + self.linear2(F.gelu(self.linear1(self.norm2(x)), approximate="tanh"))


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
        """Begin with the parameters of a learner of catgrad, whose matrices are transposed."""
        mine = dict(self.named_parameters())
        for name, array in parameters.items():
            place = NAMES.get(name) or name.replace("block_", "blocks.").replace(".self_attn.", ".")
            is_map = array.ndim == 2 and not name.startswith(("characters", "positions"))
            mine[place].data.copy_(array.T if is_map else array)


def stepper(net: Gpt, rate: float, decay: float, norm: float) -> Callable[[Any, Any], torch.Tensor]:
    """One step of AdamW with clipped gradients and no decay on vectors."""
    groups = [
        {"params": [p for p in net.parameters() if p.ndim > 1], "weight_decay": decay},
        {"params": [p for p in net.parameters() if p.ndim < 2], "weight_decay": 0.0},
    ]
    optimiser = torch.optim.AdamW(groups, rate)

    def step(x: Any, y: Any) -> torch.Tensor:
        optimiser.zero_grad()
        loss = F.cross_entropy(net(x).flatten(0, 1), y.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), norm)
        optimiser.step()
        return loss.detach()

    return step
