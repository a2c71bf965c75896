"""The registry: functions on variables by the overloads of PyTorch operations that they implement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from catgrad.errors import UnsupportedOp

Meaning = Callable[..., Any]
REGISTRY: dict[str, Meaning] = {}
"""Functions by overload, such as `aten.add.Tensor`, with the arguments of PyTorch's schema."""

DO = "write this part with other operations: docs/howto/import-pytorch.md lists them"


def aten(*overloads: str) -> Callable[[Meaning], Meaning]:
    """Register a function for these overloads, each written as `add.Tensor`."""

    def register(meaning: Meaning) -> Meaning:
        REGISTRY.update({f"aten.{overload}": meaning for overload in overloads})
        return meaning

    return register


def require(holds: bool, must: str, found: str, do: str = DO) -> None:
    """Raise UnsupportedOp unless an argument has a supported value."""
    if not holds:
        raise UnsupportedOp(must, found, do)
