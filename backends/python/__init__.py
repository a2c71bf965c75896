"""What all targets share that are Python over an array library with operators and broadcasting."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from catgrad.op import Op
from catgrad.passes import Pass

from .broadcasting import BroadcastByOperators
from .matmul import MatmulForms
from .modules import load_module

__all__ = ["load_module", "passes"]


def passes(
    takes_numbers: Callable[[Op], bool] = lambda op: True,
    scalars_keep_dtype: bool = False,
    own: Sequence[Pass] = (),
) -> tuple[Pass, ...]:
    """The dialect's passes, for a library that takes Python numbers as operands of these operations.

    With `scalars_keep_dtype` a number beside a scalar does not widen it. A library's `own` passes
    run while shapes are still what types say.
    """
    return MatmulForms(), *own, BroadcastByOperators(takes_numbers, scalars_keep_dtype)
