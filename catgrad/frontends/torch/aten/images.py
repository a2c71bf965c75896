"""Common parts of convolution and pooling: one number for several axes, images without batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from catgrad import ops
from catgrad.terms.var import Var

Numbers = int | Sequence[int]
"""A number for each spatial axis, one for all, or an empty list, as in PyTorch."""


def each(numbers: Numbers, spatial: int) -> tuple[int, ...]:
    """Return a number for each spatial axis."""
    given = [numbers] if isinstance(numbers, int) else list(numbers)
    return tuple(given * spatial if len(given) == 1 else given)


def batched(function: Callable[[Var], Var], x: Var, spatial: int) -> Var:
    """Apply a function of [N, C, …] to x, which may lack the first axis."""
    if x.type.rank == spatial + 2:
        return function(x)
    return ops.squeeze(function(ops.expand_dims(x, 0)), 0)
