"""Inputs with a gradient: backward reachability along wires that have cotangents."""

from __future__ import annotations

from collections.abc import Sequence

from catgrad.terms.structural import StopGradient
from catgrad.terms.term import Term, edges


def inputs_with_gradient(term: Term, results: Sequence[int]) -> frozenset[int]:
    """Return the positions of inputs from which a path of derivatives leads to one of these results.

    A path goes along floating-point wires, and not through `stop_gradient`. The reverse derivative for all
    other inputs is 0, whatever the values are.
    """
    every, types, targets = edges(term), term.H.w.table, term.t.table.tolist()
    producer = {wire: k for k, edge in enumerate(every) for wire in edge.targets}
    stack, seen = [targets[k] for k in results], set[int]()
    while stack:
        wire = stack.pop()
        if wire in seen or not types[wire].dtype.is_floating:
            continue
        seen.add(wire)
        if wire in producer and not isinstance(every[producer[wire]].op, StopGradient):
            stack.extend(every[producer[wire]].sources)
    return frozenset(k for k, wire in enumerate(term.s.table.tolist()) if wire in seen)
