"""The registry: functions on variables by the overloads of PyTorch operations that they implement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from catgrad.errors import UnsupportedOp

Meaning = Callable[..., Any]
REGISTRY: dict[str, Meaning] = {}
"""Functions by overload, such as `aten.add.Tensor`, with the arguments of PyTorch's schema."""

COMPOSITES: dict[str, Meaning] = {}
"""Functions by overload that PyTorch decomposes; those of `REGISTRY` are kept."""

PAIRS: dict[str, Meaning] = {}
"""Functions by overload for complex arguments, which are pairs of real arrays."""

CONDITIONS: dict[str, Callable[..., bool]] = {}
"""Functions by overload of `COMPOSITES` that return whether arguments need no decomposition."""

RANDOM: set[str] = set()
"""Overloads that may draw random numbers, each from a stream of its own name."""

CONTIGUOUS: set[str] = set()
"""Overloads that read the storage of their first argument, which must be in row-major order."""

SHAPES: dict[str, Meaning] = {}
"""For operations that torch.export cannot trace, functions that return results without values."""

FIX = "leave it out of `dynamic`, or rewrite that line"

DO = "write this part with other operations: docs/howto/import-pytorch.md lists them"


def aten(*overloads: str, random: bool = False) -> Callable[[Meaning], Meaning]:
    """Register a function for these overloads, each written as `add.Tensor`.

    A `random` one draws random numbers, from a stream named after the scope.
    """

    def register(meaning: Meaning) -> Meaning:
        names = [f"aten.{overload}" for overload in overloads]
        REGISTRY.update(dict.fromkeys(names, meaning))
        RANDOM.update(names if random else ())
        return meaning

    return register


def composite(*overloads: str, when: Callable[..., bool] | None = None) -> Callable[[Meaning], Meaning]:
    """Register a function for overloads that PyTorch decomposes, for programs that need no decomposition.

    It supports all arguments for which `when` is true: a program with others is decomposed.
    """

    def register(meaning: Meaning) -> Meaning:
        names = [f"aten.{overload}" for overload in overloads]
        COMPOSITES.update(dict.fromkeys(names, meaning))
        CONDITIONS.update(dict.fromkeys(names, when) if when else {})
        return meaning

    return register


def of_pairs(*overloads: str) -> Callable[[Meaning], Meaning]:
    """Register a function for these overloads where an argument is complex."""

    def register(meaning: Meaning) -> Meaning:
        PAIRS.update({f"aten.{overload}": meaning for overload in overloads})
        return meaning

    return register


def translation(target: Any, of_pairs: bool = False) -> Meaning | None:
    """Return the function for an overload, of complex or of real arguments, if there is one."""
    if of_pairs:
        return PAIRS.get(str(target))
    return REGISTRY.get(str(target)) or COMPOSITES.get(str(target))


def require(holds: bool, must: str, found: str, do: str = DO) -> None:
    """Raise UnsupportedOp unless an argument has a supported value."""
    if not holds:
        raise UnsupportedOp(must, found, do)
