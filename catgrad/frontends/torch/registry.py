"""The registry: functions on variables by the overloads of PyTorch operations that they implement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from catgrad.errors import UnsupportedOp
from catgrad.frontends.torch.types import OpOverload

Meaning = Callable[..., Any]
F = TypeVar("F", bound=Meaning)


@dataclass(frozen=True)
class Translation:
    """The translation of an overload: its functions take the arguments of PyTorch's schema."""

    real: Meaning | None = None
    """The function of real arrays."""

    of_pairs: Meaning | None = None
    """The function where an argument is complex, which is a pair of real arrays."""

    whole: Callable[..., bool] | None = None
    """For an operation that PyTorch decomposes, the test whether arguments need no decomposition."""

    is_random: bool = False
    """Random numbers may be drawn, from a stream of its own name."""

    reads_storage: bool = False
    """The storage of the first argument is read, which must be in row-major order."""

    shapes: Meaning | None = None
    """The results without values, for an operation that torch.export cannot trace."""


TRANSLATIONS: dict[str, Translation] = {}
"""Translations by overload, such as `aten.add.Tensor`."""

DO = "write this part with other operations: docs/howto/import-pytorch.md lists them"


def register(*overloads: str, **fields: Any) -> None:
    """Set fields of the translations of these overloads, each written as `aten.add.Tensor`."""
    for name in overloads:
        TRANSLATIONS[name] = replace(TRANSLATIONS.get(name, Translation()), **fields)


def aten(*overloads: str, **fields: Any) -> Callable[[F], F]:
    """Register a function for these overloads, written as `add.Tensor`, with fields of the translation."""

    def of_real(meaning: F) -> F:
        register(*(f"aten.{overload}" for overload in overloads), real=meaning, **fields)
        return meaning

    return of_real


def composite(*overloads: str, when: Callable[..., bool] = lambda *args, **kwargs: True) -> Callable[[F], F]:
    """Register a function for overloads that PyTorch decomposes, for programs that need no decomposition.

    It supports all arguments for which `when` is true: a program with others is decomposed.
    """
    return aten(*overloads, whole=when)


def of_pairs(*overloads: str) -> Callable[[F], F]:
    """Register a function for these overloads where an argument is complex."""

    def of_complex(meaning: F) -> F:
        register(*(f"aten.{overload}" for overload in overloads), of_pairs=meaning)
        return meaning

    return of_complex


def translation(target: OpOverload | str) -> Translation:
    """Return the translation of an overload, which is empty if there is none."""
    return TRANSLATIONS.get(str(target), Translation())


def function_for(target: OpOverload, is_complex: bool = False) -> Meaning | None:
    """Return the function for an overload, of complex or of real arguments, if there is one."""
    found = translation(target)
    return found.of_pairs if is_complex else found.real


def real(overload: str) -> Meaning:
    """Return the registered function of real arrays for an overload, written as `add.Tensor`."""
    found = translation(f"aten.{overload}").real
    assert found is not None
    return found


def require(holds: bool, must: str, found: str, do: str = DO) -> None:
    """Raise UnsupportedOp unless an argument has a supported value."""
    if not holds:
        raise UnsupportedOp(must, found, do)
