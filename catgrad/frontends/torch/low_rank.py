"""The module of a linear layer with a low-rank adapter. PyTorch must be installed."""

from __future__ import annotations

import torch

from catgrad.frontends.torch.types import Module, Tensor


class LowRank(torch.nn.Module):  # type: ignore[misc]  # PyTorch is not read by mypy
    """A frozen linear layer with an adapter: y = x Wᵀ + b + s · x · U · V."""

    def __init__(self, layer: Module, rank: int, scale: float) -> None:
        super().__init__()
        self.scale, self.weight, self.bias = scale, layer.weight, layer.bias
        bound, like = layer.in_features**-0.5, layer.weight.detach()
        self.lora_a = torch.nn.Parameter(like.new_empty(layer.in_features, rank).uniform_(-bound, bound))
        self.lora_b = torch.nn.Parameter(like.new_zeros(rank, layer.out_features))

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer and its adapter."""
        base = torch.nn.functional.linear(x, self.weight, self.bias)
        return base + self.scale * (x @ self.lora_a @ self.lora_b)

    def merged(self) -> Module:
        """Return the linear layer with the weight W + s · (U · V)ᵀ."""
        outputs, inputs = self.weight.shape
        layer = torch.nn.Linear(inputs, outputs, self.bias is not None).to(self.weight)
        layer.weight.data = (self.weight + self.scale * (self.lora_a @ self.lora_b).T).detach()
        if self.bias is not None:
            layer.bias.data = self.bias.detach().clone()
        return layer
