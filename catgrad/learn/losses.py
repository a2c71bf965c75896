"""Losses: functions of a prediction and what it should have been, with one number as value."""

from __future__ import annotations

from typing import Any

from catgrad import ops


def mse(y_hat: Any, y: Any) -> Any:
    """Mean squared error: Σ (ŷ − y)² / n, over all n elements.

    Type:     (T, T) -> T[] for floating T
    Raises:   ShapeError if ŷ and y differ in type
    Gradient: dŷ = 2 (ŷ − y) / n, as in torch.nn.functional.mse_loss; Python catgrad's `mse`
              leaves out the factor 2 / n, so its learning rates are larger by n / 2
    """
    return ops.mean(ops.square(ops.subtract(y_hat, y)))
