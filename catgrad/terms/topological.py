"""Topological order of a term's operations, by Kahn's algorithm with a heap."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from catgrad.errors import TermError
from catgrad.terms.term import Term, edges


def schedule(term: Term) -> list[int]:
    """Return the numbers of the operations in a topological order, ties broken by number.

    O(n log n), and the same order in every run. Copies, discards and labels come first: they cost
    nothing, and delaying them would delay the operations after them.
    Raises: TermError if the term has a cycle.
    """
    every = edges(term)
    consumers: list[list[int]] = [[] for _ in range(term.H.W)]
    missing = [len(edge.sources) for edge in every]
    for i, edge in enumerate(every):
        for wire in edge.sources:
            consumers[wire].append(i)
    for wire in term.s.table.tolist():
        for i in consumers[wire]:
            missing[i] -= 1

    # Numbers of structural operations are less than those of all others.
    first = [i if edge.op.structural else i + len(every) for i, edge in enumerate(every)]
    ready = [first[i] for i, count in enumerate(missing) if count == 0]
    heapify(ready)
    order = []
    while ready:
        i = heappop(ready) % len(every)
        order.append(i)
        for wire in every[i].targets:
            for j in consumers[wire]:
                missing[j] -= 1
                if missing[j] == 0:
                    heappush(ready, first[j])
    if len(order) < len(every):
        stuck = next(edge.op for i, edge in enumerate(every) if missing[i] > 0)
        raise TermError(
            "a term must be acyclic to be computed",
            f"{stuck} depends on its own result",
            "feed a value back through a state or a loop, not through a wire",
        )
    return order
