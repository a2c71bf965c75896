"""Dead-code elimination on terms: discarding is natural, f ; ! = !."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from catgrad.terms.build import build
from catgrad.terms.structural import Discard
from catgrad.terms.term import Edge, Term, assemble, edges


def eliminate_dead_code(term: Term) -> Term:
    """Remove operations that no output depends on; their sources are discarded instead."""
    every = edges(term)
    needed = _needed(term, every)
    if all(k in needed or isinstance(edge.op, Discard) for k, edge in enumerate(every)):
        return term
    types = term.H.w.table
    kept = [edge for k, edge in enumerate(every) if k in needed]
    read = {*term.t.table.tolist(), *(wire for edge in kept for wire in edge.sources)}
    written = [*term.s.table.tolist(), *(wire for edge in kept for wire in edge.targets)]
    discards = [Edge(Discard(types[wire]), (wire,), ()) for wire in written if wire not in read]
    return _part(term, written, kept + discards, term.s.table.tolist())


def unused_inputs(term: Term) -> frozenset[int]:
    """Return the positions of the inputs that no output depends on."""
    every = edges(term)
    read = {*term.t.table.tolist(), *(wire for k in _needed(term, every) for wire in every[k].sources)}
    return frozenset(i for i, wire in enumerate(term.s.table.tolist()) if wire not in read)


def _needed(term: Term, every: Sequence[Edge]) -> set[int]:
    """Return the numbers of the operations that an output depends on."""
    producer = {wire: k for k, edge in enumerate(every) for wire in edge.targets}
    needed: set[int] = set()
    stack = [producer[wire] for wire in term.t.table.tolist() if wire in producer]
    while stack:
        k = stack.pop()
        if k not in needed:
            needed.add(k)
            stack.extend([producer[wire] for wire in every[k].sources if wire in producer])
    return needed


def narrowed(term: Term, kept: Sequence[bool]) -> Term:
    """Remove inputs, all of which must be unused."""
    alive = eliminate_dead_code(term)
    sources = alive.s.table.tolist()
    dropped = {wire for wire, keep in zip(sources, kept, strict=True) if not keep}
    rest = [edge for edge in edges(alive) if not dropped.intersection(edge.sources)]
    wires = [wire for wire in range(alive.H.W) if wire not in dropped]
    return _part(alive, wires, rest, [wire for wire in sources if wire not in dropped])


def _part(term: Term, wires: Sequence[int], kept: Sequence[Edge], sources: Sequence[int]) -> Term:
    """Restrict the term to some wires, operations and inputs."""
    number = {wire: i for i, wire in enumerate(wires)}
    return assemble(
        [term.H.w.table[wire] for wire in wires],
        [Edge(op, tuple(number[w] for w in ins), tuple(number[w] for w in outs)) for op, ins, outs in kept],
        [number[wire] for wire in sources],
        [number[wire] for wire in term.t.table.tolist()],
    )


def selected(term: Term, chosen: Sequence[int] | slice) -> Term:
    """Select some of the results."""
    positions = range(len(term.target))[chosen] if isinstance(chosen, slice) else chosen

    def some(*arguments: Any) -> Any:
        results = term.apply(*arguments)
        return [results[i] for i in positions]

    return build(some, list(term.source.table))


def used_inputs(terms: Sequence[Term]) -> list[int]:
    """Return the positions of the inputs that any of the terms reads."""
    ignored = frozenset.intersection(*map(unused_inputs, terms))
    return [i for i in range(len(terms[0].source)) if i not in ignored]


def with_inputs(term: Term, kept: Sequence[int]) -> Term:
    """Select some of the inputs; the term must read no others."""
    return narrowed(term, [i in kept for i in range(len(term.source))])
