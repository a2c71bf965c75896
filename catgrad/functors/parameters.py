"""Parameters: hidden inside a model while it is composed, arguments once it is compiled."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from typing import TypeGuard

from catgrad.errors import DtypeError, ShapeError
from catgrad.functors.factor import factor
from catgrad.op import Op
from catgrad.state import Parameter, RunNumber, Slot, Update, slot
from catgrad.structural import Label, Named
from catgrad.term import Edge, Term, assemble, edges, map_operations
from catgrad.types import symbols


def prefixed(name: str, term: Term) -> Term:
    """The same term, with `name.` put before the names of its parameters and labels."""
    return map_operations(term, lambda op: replace(op, name=f"{name}.{op.name}") if _is_local(op) else op)


def factor_parameters(model: Term) -> tuple[tuple[Slot, ...], Term]:
    """model : X → Y as its parameters P and f : P ⊗ X → Y with model = (p ⊗ id) ; f.

    Parameters come in the order in which the model was composed. Where several layers have one
    name, as after composing two dense ones, the k-th gets k behind it: `dense_0.weight`.
    Raises: ShapeError if the shape of a parameter is symbolic; DtypeError if it is not floating.
    """
    every = edges(model)
    names = _distinct_names([edge.op for edge in every])
    renamed = [Edge(_with_name(edge.op, names.get(i)), *edge[1:]) for i, edge in enumerate(every)]
    distinct = assemble(list(model.H.w.table), renamed, model.s.table.tolist(), model.t.table.tolist())
    parameters, factored = factor(distinct, Parameter)
    for parameter in parameters:
        _check_trainable(parameter)
    return tuple(map(slot, parameters)), factored


def _is_local(op: Op) -> TypeGuard[Named]:
    """Whether its name is that of something in one layer."""
    return isinstance(op, Named) and not isinstance(op, RunNumber)


def _distinct_names(ops: list[Op]) -> dict[int, str]:
    """New names, by position. A layer's operations stand together, so a layer's name begins a new
    layer where it would otherwise hold one thing twice.
    """
    instance: Counter[str] = Counter()
    held: dict[str, set[str]] = {}
    places: dict[int, tuple[str, int, str]] = {}
    for i, op in enumerate(ops):
        if _is_local(op):
            layer, dot, rest = op.name.partition(".")
            names = held.setdefault(layer, set())
            if not isinstance(op, (Label, Update)):
                if op.name in names:
                    instance[layer] += 1
                    names.clear()
                names.add(op.name)
            places[i] = layer, instance[layer], dot + rest
    taken = set(held)
    numbered = {layer: _numbers(layer, instance[layer] + 1, taken) for layer in held if instance[layer]}
    return {i: numbered[layer][k] + rest for i, (layer, k, rest) in places.items() if layer in numbered}


def _numbers(layer: str, count: int, taken: set[str]) -> list[str]:
    candidates = (f"{layer}_{k}" for k in itertools.count())
    return list(itertools.islice((name for name in candidates if name not in taken), count))


def _check_trainable(parameter: Parameter) -> None:
    if not parameter.array_type.dtype.is_floating:
        raise DtypeError(
            "a parameter must be floating-point, for it moves along its gradient",
            f"{parameter.name} is {parameter.array_type}",
            "make it an input of the model, or a constant",
        )
    if symbols((parameter.array_type,)):
        raise ShapeError(
            "the shape of a parameter must be known",
            f"{parameter.name} is {parameter.array_type}",
            "keep symbolic dimensions for the batch",
        )


def _with_name(op: Op, name: str | None) -> Op:
    return replace(op, name=name) if name and _is_local(op) else op
