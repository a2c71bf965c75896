"""Parameters: hidden inside a model while it is composed, arguments once it is compiled."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

from catgrad.errors import DtypeError, ShapeError
from catgrad.op import Op
from catgrad.structural import Label, Parameter, Slot
from catgrad.term import Edge, Term, assemble, edges, map_operations
from catgrad.types import symbols


def prefixed(name: str, term: Term) -> Term:
    """The same term, with `name.` put before the names of its parameters and labels."""

    def rename(op: Op) -> Op:
        if isinstance(op, (Label, Parameter)):
            return replace(op, name=f"{name}.{op.name}")
        return op

    return map_operations(term, rename)


def factor_parameters(model: Term) -> tuple[tuple[Slot, ...], Term]:
    """model : X → Y as its parameters P and f : P ⊗ X → Y with model = (p ⊗ id) ; f.

    Parameters come in the order in which the model was composed. Where several layers have one
    name, as after composing two dense ones, the k-th gets k behind it: `dense_0.weight`.
    Raises: ShapeError if the shape of a parameter is symbolic; DtypeError if it is not floating.
    """
    every = edges(model)
    names = _distinct_names([edge.op for edge in every])
    renamed = [Edge(_with_name(edge.op, names.get(i)), *edge[1:]) for i, edge in enumerate(every)]
    found = [(edge, edge.op) for edge in renamed if isinstance(edge.op, Parameter)]
    for _, op in found:
        _check_trainable(op)
    kept = [edge for edge in renamed if not isinstance(edge.op, Parameter)]
    sources = [edge.targets[0] for edge, _ in found] + model.s.table.tolist()
    slots = tuple(Slot(op.name, op.array_type, op.initial) for _, op in found)
    return slots, assemble(list(model.H.w.table), kept, sources, model.t.table.tolist())


def _distinct_names(ops: list[Op]) -> dict[int, str]:
    """New names, by position. A layer's operations stand together, so a layer's name begins a new
    layer where it would otherwise hold one parameter twice.
    """
    instance: Counter[str] = Counter()
    held: dict[str, set[str]] = {}
    places: dict[int, tuple[str, int, str]] = {}
    for i, op in enumerate(ops):
        if isinstance(op, (Label, Parameter)):
            layer, dot, rest = op.name.partition(".")
            names = held.setdefault(layer, set())
            if isinstance(op, Parameter):
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
    return replace(op, name=name) if name and isinstance(op, (Label, Parameter)) else op
