"""Selection of the functions to emit: those that are named, and those that these or the options need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from catgrad.backend import Backend
from catgrad.errors import OptionError, UnknownName, nearest
from catgrad.learn.task import Task
from catgrad.programs.ports import Kind
from catgrad.programs.terms import Terms


def select(
    backend: Backend, task: Task, functions: Iterable[str] | None, default: Sequence[str]
) -> tuple[tuple[Kind, ...], frozenset[str]]:
    """Return the kinds of functions of a task to emit, in their order, and the target's variants of them.

    Without `functions` they are the default ones, or all of a target that does not print these.

    Raises: UnknownName if the target has no such function; OptionError if there is none
    """
    printed, variants = backend.entries(backend.options, task), backend.variants
    known = [*printed, *variants]
    if functions is None:
        named: Sequence[str] = default if set(default) <= set(known) else printed
    else:
        named = _checked(functions, known, f" for {backend.name}")
    needed = {*named, *backend.required(backend.options), *(variants[n] for n in named if n in variants)}
    return tuple(kind for kind in printed if kind in needed), frozenset(variants.keys() & set(named))


def select_terms(terms: Terms, functions: Iterable[str] | None) -> Terms:
    """Return the terms of Functions that are named, by default all. Raises: as `select`"""
    return terms if functions is None else terms.only(_checked(functions, list(terms.entries)))


def _checked(functions: Iterable[str], known: Sequence[str], where: str = "") -> list[str]:
    names = [functions] if isinstance(functions, str) else list(functions)
    if not names:
        raise OptionError("functions must name one at least", "they name none", "leave functions out")
    for name in names:
        if name not in known:
            raise UnknownName(
                f"a function to emit{where} must be one of {', '.join(known)}",
                f"it is {name!r}",
                f"{nearest(name, known)}choose among these",
            )
    return names
