"""Parameters: generators inside a model while it is composed, arguments when it is compiled."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeGuard

from catgrad.errors import DtypeError, ShapeError
from catgrad.functors.factor import factor
from catgrad.terms.block import blocks, map_blocks
from catgrad.terms.op import Op
from catgrad.terms.state import Parameter, RunNumber, Slot, Update, slot
from catgrad.terms.structural import Label, Named
from catgrad.terms.term import Term, map_operations
from catgrad.types import symbols


def prefixed(name: str, term: Term) -> Term:
    """Prefix the names of parameters and labels with `name.`."""
    return map_operations(term, lambda op: _renamed(op, lambda old: f"{name}.{old}"))


def with_distinct_names(model: Term) -> Term:
    """Rename parameters and labels apart: of several layers with one name, the k-th gets the suffix k, as in
    `dense_0.weight`.
    """
    names = iter(_distinct_names(list(_local(model))))
    return map_operations(model, lambda op: _renamed(op, lambda _: next(names)))


def factor_parameters(model: Term) -> tuple[tuple[Slot, ...], Term]:
    """Factor a model X → Y into its parameters P and f : P ⊗ X → Y with model = (p ⊗ id) ; f.

    Parameters are in the order of composition, and have distinct names.
    Raises: ShapeError if the shape of a parameter is symbolic; DtypeError if it is not floating.
    """
    parameters, factored = factor(with_distinct_names(model), Parameter)
    for parameter in parameters:
        _check_trainable(parameter)
    return tuple(map(slot, parameters)), factored


def _is_local(op: Op) -> TypeGuard[Named]:
    """Return whether it has a name, which belongs to one layer."""
    is_apart = isinstance(op, RunNumber) or (isinstance(op, Label) and op.is_relative)
    return isinstance(op, Named) and op.name is not None and not is_apart


def _local(term: Term) -> Iterator[Named]:
    """Yield operations named in one layer, also those in blocks, in the order of renaming."""
    for op in term.H.x.table:
        if _is_local(op):
            yield op
        for block in blocks(op).values():
            yield from _local(block.term)


def _renamed(op: Op, change: Callable[[str], str]) -> Op:
    """Rename an operation, and those in its blocks."""
    if _is_local(op):
        return replace(op, name=change(op.name))
    return map_blocks(op, lambda term: map_operations(term, lambda inner: _renamed(inner, change)))


def _distinct_names(ops: list[Named]) -> list[str]:
    """Return unique names. The operations of a layer are adjacent, so a name that repeats within a layer
    begins another layer.
    """
    instance: Counter[str] = Counter()
    held: dict[str, set[str]] = {}
    places: list[tuple[str, int, str]] = []
    for op in ops:
        layer, dot, rest = op.name.partition(".")
        names = held.setdefault(layer, set())
        if not isinstance(op, (Label, Update)):
            if op.name in names:
                instance[layer] += 1
                names.clear()
            names.add(op.name)
        places.append((layer, instance[layer], dot + rest))
    taken = set(held)
    numbered = {layer: _numbers(layer, instance[layer] + 1, taken) for layer in held if instance[layer]}
    return [(numbered[layer][k] if layer in numbered else layer) + rest for layer, k, rest in places]


def _numbers(layer: str, count: int, taken: set[str]) -> list[str]:
    candidates = (f"{layer}_{k}" for k in itertools.count())
    return list(itertools.islice((name for name in candidates if name not in taken), count))


def _check_trainable(parameter: Parameter) -> None:
    if not parameter.array_type.dtype.is_floating:
        raise DtypeError(
            "a parameter must be floating-point, because its gradient updates it",
            f"{parameter.name} is {parameter.array_type}",
            "make it an input of the model, or a constant",
        )
    if symbols((parameter.array_type,)):
        raise ShapeError(
            "the shape of a parameter must be known",
            f"{parameter.name} is {parameter.array_type}",
            "keep symbolic dimensions for the batch",
        )
