"""Numbers, or other polynomials, for symbolic dimensions."""

from __future__ import annotations

from collections.abc import Mapping

from catgrad.dims import Size
from catgrad.term import Edge, Term, assemble, edges


def substitute(term: Term, sizes: Mapping[str, Size]) -> Term:
    """The term with `sizes[name]` put for each symbolic dimension: a functor that keeps the diagram.

    Raises: ShapeError if the operations do not type-check at these sizes.
    """
    changed = [Edge(edge.op.substitute(sizes), edge.sources, edge.targets) for edge in edges(term)]
    types = [t.substitute(sizes) for t in term.H.w.table]
    for op, ins, _ in changed:
        op.outputs(*(types[wire] for wire in ins))
    return assemble(types, changed, term.s.table.tolist(), term.t.table.tolist())
