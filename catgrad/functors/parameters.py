"""Parameters: hidden inside a model while it is composed, arguments once it is compiled."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from catgrad.initialisers import Initialiser
from catgrad.op import Op
from catgrad.schedule import schedule
from catgrad.structural import Label, Parameter
from catgrad.term import Edge, Term, assemble, edges, map_operations
from catgrad.types import NdArrayType


@dataclass(frozen=True)
class Slot:
    """A place for a named array: a parameter, or one array of an optimiser's state."""

    name: str
    type: NdArrayType
    initial: Initialiser


def prefixed(name: str, term: Term) -> Term:
    """The same term, with `name.` put before the names of its parameters and labels."""

    def rename(op: Op) -> Op:
        if isinstance(op, (Label, Parameter)):
            return replace(op, name=f"{name}.{op.name}")
        return op

    return map_operations(term, rename)


def factor_parameters(model: Term) -> tuple[tuple[Slot, ...], Term]:
    """Model : X → Y as its parameters P and f : P ⊗ X → Y with model = (p ⊗ id) ; f.

    Parameters come in the order of the computation. Where several have one name, as after
    composing two dense layers, the k-th gets k behind the first part: `dense_0.weight`.
    """
    every = edges(model)
    order = schedule(model)
    names = _distinct_names(every, order)
    renamed = [Edge(_with_name(edge.op, names.get(i)), *edge[1:]) for i, edge in enumerate(every)]
    found = [renamed[i] for i in order if isinstance(renamed[i].op, Parameter)]
    kept = [edge for edge in renamed if not isinstance(edge.op, Parameter)]
    sources = [edge.targets[0] for edge in found] + model.s.table.tolist()
    slots = tuple(Slot(e.op.name, e.op.array_type, e.op.initial) for e in found)  # type: ignore[attr-defined]
    return slots, assemble(list(model.H.w.table), kept, sources, model.t.table.tolist())


def _distinct_names(every: list[Edge], order: list[int]) -> dict[int, str]:
    named = [i for i in order if isinstance(every[i].op, (Label, Parameter))]
    name_of = {i: every[i].op.name for i in named}  # type: ignore[attr-defined]
    occurrences = Counter(name_of.values())
    repeated = {name.partition(".")[0] for name, count in occurrences.items() if count > 1}
    seen: Counter[str] = Counter()
    distinct = {}
    for i in named:
        first, dot, rest = name_of[i].partition(".")
        number = f"_{seen[name_of[i]]}" if first in repeated else ""
        seen[name_of[i]] += 1
        distinct[i] = f"{first}{number}{dot}{rest}"
    return distinct


def _with_name(op: Op, name: str | None) -> Op:
    return replace(op, name=name) if name and isinstance(op, (Label, Parameter)) else op
