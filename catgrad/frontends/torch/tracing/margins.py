"""The loss of margins between classes, with the gradient of PyTorch's own operation at margins of 0."""

from __future__ import annotations

import torch
from torch.nn import _reduction, functional

from catgrad.frontends.torch.types import Tensor


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: object = None,
    reduce: object = None,
    reduction: str = "mean",
) -> Tensor:
    """Compute Σᵢ≠ₜ w[t] max(0, m - x[t] + x[i])ᵖ / C for a label t of C classes, with a slope of 0 at 0."""
    if size_average is not None or reduce is not None:
        reduction = _reduction.legacy_get_string(size_average, reduce)
    classes, label = input.shape[-1], target.unsqueeze(-1)
    margins = functional.relu(margin - input.gather(-1, label) + input)
    margins = margins * margins if p == 2 else margins
    margins = margins if weight is None else margins * weight[label]
    is_other = torch.arange(classes, device=input.device) != label
    losses = torch.where(is_other, margins, 0.0).sum(-1) / classes
    return losses.sum() if reduction == "sum" else losses.mean() if reduction == "mean" else losses
