"""What convolutions and pools share: one number for several axes, and images without a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from catgrad import ops

Numbers = int | Sequence[int]
"""PyTorch's way of saying one number for each spatial axis: all of them, one for all, or none."""


def each(numbers: Numbers, spatial: int) -> tuple[int, ...]:
    """A number for each spatial axis."""
    given = [numbers] if isinstance(numbers, int) else list(numbers)
    return tuple(given * spatial if len(given) == 1 else given)


def batched(function: Callable[[Any], Any], x: Any, spatial: int) -> Any:
    """A function of [N, C, …] at x, which may lack the first axis."""
    if x.type.rank == spatial + 2:
        return function(x)
    return ops.squeeze(function(ops.expand_dims(x, 0)), 0)
