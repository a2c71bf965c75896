"""Discarding is natural, f ; ! = !, so what leads to no output may be left out."""

from __future__ import annotations

from catgrad.structural import Discard
from catgrad.term import Edge, Term, assemble, edges


def live(term: Term) -> Term:
    """The term without the operations that lead to no output; what they read is discarded instead."""
    every = edges(term)
    producer = {wire: k for k, edge in enumerate(every) for wire in edge.targets}
    needed: set[int] = set()
    stack = [producer[wire] for wire in term.t.table.tolist() if wire in producer]
    while stack:
        k = stack.pop()
        if k not in needed:
            needed.add(k)
            stack.extend(producer[wire] for wire in every[k].sources if wire in producer)
    if all(k in needed or isinstance(edge.op, Discard) for k, edge in enumerate(every)):
        return term
    types = term.H.w.table
    kept = [edge for k, edge in enumerate(every) if k in needed]
    read = {*term.t.table.tolist(), *(wire for edge in kept for wire in edge.sources)}
    written = [*term.s.table.tolist(), *(wire for edge in kept for wire in edge.targets)]
    number = {wire: i for i, wire in enumerate(written)}
    discards = [Edge(Discard(types[wire]), (wire,), ()) for wire in written if wire not in read]
    renumbered = [
        Edge(op, tuple(number[w] for w in sources), tuple(number[w] for w in targets))
        for op, sources, targets in kept + discards
    ]
    sources, targets = ([number[wire] for wire in side.table.tolist()] for side in (term.s, term.t))
    return assemble([types[wire] for wire in written], renumbered, sources, targets)
