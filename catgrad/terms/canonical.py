"""Hash of a term up to isomorphism: canonical labelling of its hypergraph by port-ordered traversal.

Every wire has one producer and one consumer, and ports are ordered. So a breadth-first traversal from the
boundary, which visits the ports of each operation in order, numbers all wires and operations that are
connected to the boundary in one way, in linear time. A component without a boundary is numbered from each
operation of its rarest kind, and the least form is taken; such components are sorted by their forms. The
hash is the SHA-256 of the columns in this numbering. Labels are identities with names for readers: they are
contracted first.

Source: Bonchi et al. 2022, String diagram rewrite theory II (arXiv:2104.14686), for monogamous cospans.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

from catgrad.initialisers import Stored
from catgrad.terms.columns import columns
from catgrad.terms.structural import Label
from catgrad.terms.term import Edge, Term, check_monogamous, edges
from catgrad.terms.topological import schedule

VERSION = 1
"""The version of the canonical form, which is hashed with it."""


def digest(term: Term) -> str:
    """Return the SHA-256 of a term in hexadecimal, the same for isomorphic terms.

    It depends on the types of all wires, and on the operations with all attributes: constants, names of
    parameters, initial values, symbols of sizes, terms in attributes. It does not depend on the numbers of
    wires and operations, nor on labels.

    Raises: TermError if a wire has not one producer and one consumer, or the term has a cycle
    """
    check_monogamous(term)
    return digest_of(["term", VERSION, _Contracted(term).form()])


def digest_of(data: Any) -> str:
    """Return the SHA-256 of data as JSON without spaces, with sorted keys."""
    return hashlib.sha256(_text(data)).hexdigest()


def write_digest(part: Term | Stored) -> Any:
    """Write a term in an attribute, or a stored array, as its hash."""
    if isinstance(part, Term):
        return digest(part)
    return [part.array.dtype.name, list(part.array.shape), part.sha256]


def _text(data: Any) -> bytes:
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


class _Contracted:
    """A term without its labels: operations by number, and those at both ends of each wire."""

    def __init__(self, term: Term) -> None:
        every, self.types = edges(term), term.H.w.table
        self.edges = {k: edge for k, edge in enumerate(every) if not isinstance(edge.op, Label)}
        labelled: dict[int, int] = {}
        for k in schedule(term):
            edge = every[k]
            if isinstance(edge.op, Label):
                (source,), (target,) = edge.sources, edge.targets
                labelled[target] = labelled.get(source, source)
        if labelled:
            for k, (op, sources, targets) in self.edges.items():
                self.edges[k] = Edge(op, tuple([labelled.get(w, w) for w in sources]), targets)
        self.inputs = term.s.table.tolist()
        self.outputs = [labelled.get(wire, wire) for wire in term.t.table.tolist()]
        self.ends: list[list[int]] = [[] for _ in self.types]
        for k, (_, sources, targets) in self.edges.items():
            for wire in targets:
                self.ends[wire].insert(0, k)  # the producer first
            for wire in sources:
                self.ends[wire].append(k)

    def form(self) -> Any:
        """Return the columns in the canonical numbering."""
        wires, order = self._traverse([*self.inputs, *self.outputs], [])
        closed = sorted((self._closed(k) for k in self._roots(order)), key=lambda found: found[0])
        for _, more_wires, more in closed:
            wires += more_wires
            order += more
        return self._columns(wires, order, self.inputs, self.outputs)

    def _traverse(self, wires: Iterable[int], start: Iterable[int]) -> tuple[list[int], list[int]]:
        """List the wires and operations connected to these, in the order of a breadth-first traversal."""
        found, order = dict.fromkeys(wires), dict.fromkeys(start)
        for k in order:
            found |= dict.fromkeys((*self.edges[k].sources, *self.edges[k].targets))
        queue = list(found)
        for wire in queue:
            for k in self.ends[wire]:
                if k not in order:
                    order[k] = None
                    for other in (*self.edges[k].sources, *self.edges[k].targets):
                        if other not in found:
                            found[other] = None
                            queue.append(other)
        return queue, list(order)

    def _roots(self, reached: Iterable[int]) -> Iterable[int]:
        """Yield one operation of each component without a boundary."""
        seen = set(reached)
        for k in self.edges:
            if k not in seen:
                seen.update(self._traverse([], [k])[1])
                yield k

    def _closed(self, root: int) -> tuple[bytes, list[int], list[int]]:
        """Return the least form of the component of an operation, with its wires and operations."""
        component = self._traverse([], [root])[1]
        counts = Counter(self.edges[k].op for k in component)
        rarest = min(counts.values())
        texts = {op: _text(columns([], [Edge(op, (), ())], [], [], write_digest)) for op in counts}
        least = min(texts[op] for op, count in counts.items() if count == rarest)
        roots = [k for k in component if texts[self.edges[k].op] == least]
        numberings = [self._traverse([], [k]) for k in roots]
        forms = [(_text(self._columns(*numbering, [], [])), *numbering) for numbering in numberings]
        return min(forms, key=lambda form: form[0])

    def _columns(self, wires: list[int], order: list[int], inputs: list[int], outputs: list[int]) -> Any:
        number = {wire: i for i, wire in enumerate(wires)}
        get = number.__getitem__
        every = [
            Edge(op, tuple(map(get, ins)), tuple(map(get, outs)))
            for op, ins, outs in map(self.edges.__getitem__, order)
        ]
        types = [self.types[wire] for wire in wires]
        return columns(types, every, list(map(get, inputs)), list(map(get, outputs)), write_digest)
