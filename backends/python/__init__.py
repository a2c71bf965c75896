"""What all targets share that are Python over an array library with operators and broadcasting."""

from __future__ import annotations

from collections.abc import Callable

from catgrad.op import Op
from catgrad.passes import Pass

from .broadcasting import BroadcastByOperators
from .matmul import MatmulForms
from .modules import load_module

__all__ = ["load_module", "passes"]


def passes(takes_numbers: Callable[[Op], bool] = lambda op: True) -> tuple[Pass, ...]:
    """The dialect's passes, for a library that takes Python numbers as operands of these operations."""
    return MatmulForms(), BroadcastByOperators(takes_numbers)
