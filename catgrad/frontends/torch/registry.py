"""Which function on variables stands for which operation of PyTorch, by the exact name of its overload."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from catgrad.errors import UnsupportedOp

Meaning = Callable[..., Any]
REGISTRY: dict[str, Meaning] = {}
"""`aten.add.Tensor` and the like: functions of the arguments that PyTorch's schema has, in its order."""

DO = "write this part with other operations: docs/howto/import-pytorch.md lists them"


def aten(*overloads: str) -> Callable[[Meaning], Meaning]:
    """The function stands for these overloads, each as `add.Tensor`."""

    def register(meaning: Meaning) -> Meaning:
        REGISTRY.update({f"aten.{overload}": meaning for overload in overloads})
        return meaning

    return register


def require(holds: bool, must: str, found: str, do: str = DO) -> None:
    """Raises UnsupportedOp unless an argument is one that the front end understands."""
    if not holds:
        raise UnsupportedOp(must, found, do)
