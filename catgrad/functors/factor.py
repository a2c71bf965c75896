"""Turn the state inside a term into arguments, and its new values into results."""

from __future__ import annotations

from typing import Any, TypeVar

from catgrad.errors import TermError
from catgrad.terms.build import TermBuilder, build
from catgrad.terms.state import Buffer, Persistent, RunNumber, Slot, Update, slot
from catgrad.terms.term import Edge, Term, assemble, edges

K = TypeVar("K", bound=Persistent)


def factor(term: Term, kind: type[K]) -> tuple[tuple[K, ...], Term]:
    """Factor F : X → Y into the state K of one kind and a term K ⊗ X → Y.

    State that is read repeatedly under one name is one argument, in the order of the first use.
    Raises: TermError if two generators with one name differ.
    """
    builder, kept = TermBuilder(), _by_name(term, kind)
    arguments = {name: builder.wire(op.array_type) for name, op in kept.items()}
    inputs = [*arguments.values(), *(builder.wire(t) for t in term.source.table)]
    place = dict(zip(term.s.table.tolist(), inputs[len(kept) :], strict=True))
    others: list[Edge] = []
    for edge in edges(term):
        if isinstance(edge.op, kind):
            place[edge.targets[0]] = arguments[edge.op.name]
        else:
            others.append(edge)
    for wire, type in enumerate(term.H.w.table):
        if wire not in place:
            place[wire] = builder.wire(type)
    for op, ins, outs in others:
        builder.edges.append(Edge(op, tuple(place[w] for w in ins), tuple(place[w] for w in outs)))
    return tuple(kept.values()), builder.finish(inputs, [place[w] for w in term.t.table.tolist()])


def factor_run_numbers(term: Term) -> tuple[tuple[RunNumber, ...], Term]:
    """Factor F : X → Y into its run numbers R and a term R ⊗ X → Y."""
    return factor(term, RunNumber)


def factor_buffers(term: Term) -> tuple[tuple[Slot, ...], Term]:
    """Factor F : X → Y into its buffers M and a term M ⊗ X → M ⊗ Y, with their new values.

    A buffer without an Update keeps its value.
    Raises: TermError if two buffers have one name, or an Update has no buffer.
    """
    every = edges(term)
    names = [edge.op.name for edge in every if isinstance(edge.op, Buffer)]
    updates = {edge.op.name: edge.sources[0] for edge in every if isinstance(edge.op, Update)}
    written = [edge.op.name for edge in every if isinstance(edge.op, Update)]
    if len(set(names)) < len(names) or len(set(written)) < len(written) or not set(written) <= set(names):
        raise TermError(
            "each buffer must be read once and updated at most once",
            f"the reads are {names} and the updates {written}",
            "read it once into a variable, and give layers distinct names",
        )
    rest = [edge for edge in every if not isinstance(edge.op, Update)]
    opened = assemble(
        list(term.H.w.table), rest, term.s.table.tolist(), [*updates.values(), *term.t.table.tolist()]
    )
    buffers, factored = factor(opened, Buffer)

    def with_all_buffers(*arguments: Any) -> Any:
        results = factored.apply(*arguments)
        new = dict(zip(updates, results, strict=False))
        kept = [new.get(b.name, old) for b, old in zip(buffers, arguments, strict=False)]
        return [*kept, *results[len(updates) :]]

    return tuple(map(slot, buffers)), build(with_all_buffers, list(factored.source.table))


def _by_name(term: Term, kind: type[K]) -> dict[str, K]:
    found: dict[str, K] = {}
    for op in term.H.x.table:
        if isinstance(op, kind) and found.setdefault(op.name, op) != op:
            raise TermError(
                "parameters and buffers must have distinct names",
                f"{op.name!r} is {found[op.name]} and {op}",
                "rename one of them",
            )
    return found
