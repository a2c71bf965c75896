"""Partition a reverse A ⊗ B′ → B ⊗ A′ into a forward and a backward part with a minimal residual."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from catgrad.terms.build import build
from catgrad.terms.op import Op
from catgrad.terms.structural import Copy, Discard, Label
from catgrad.terms.term import Term, edges
from catgrad.terms.topological import schedule
from catgrad.types import NdArrayType


class Node(NamedTuple):
    """An operation on values, which are numbered starting with the inputs."""

    op: Op
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class Split(NamedTuple):
    """`forward : A → B ⊗ M`, and `backward : M ⊗ A_free ⊗ B′ → A′`.

    For each wire of M, `inputs` has its position in A and `outputs` that in B, or None if it is not among
    them.
    """

    forward: Term
    backward: Term
    inputs: tuple[int | None, ...]
    outputs: tuple[int | None, ...]


def split(joint: Term, inputs: int, outputs: int, stored: range, free: range) -> Split:
    """Partition a reverse A ⊗ B′ → B ⊗ A′; saving the inputs at positions `stored` or `free` costs nothing.

    The forward part computes B. M consists of the values that the backward part reads from it, except
    those that depend on free inputs only or rearrange another value: these are recomputed.
    """
    values = Values(joint)
    results = values.results
    forward = values.ancestors(results[:outputs], stop=frozenset())
    produced = {value for node in forward for value in node.outputs}
    loose = values.closure(free)
    repeated = {
        value
        for node in forward
        if node.op.rearranges or loose.issuperset(node.inputs)
        for value in node.outputs
    }
    known = (frozenset(range(inputs)) | produced) - repeated - loose
    backward = values.ancestors(results[outputs:], stop=known)
    read = {value for node in backward for value in node.inputs} | set(results[outputs:])
    cheap = values.recomputed(read & known, loose.union(stored))
    known -= cheap
    backward = values.ancestors(results[outputs:], stop=known)
    read = {value for node in backward for value in node.inputs} | set(results[outputs:])
    saved = sorted(read & known)
    place = {value: i for i, value in enumerate(results[:outputs])}
    kept = [*saved, *free, *range(inputs, values.inputs)]
    return Split(
        values.term(range(inputs), forward, [*results[:outputs], *saved]),
        values.term(kept, backward, results[outputs:]),
        tuple(value if value < inputs else None for value in saved),
        tuple(place.get(value) for value in saved),
    )


class Values:
    """A term as numbered values: copies and labels are removed, common subexpressions shared if asked for."""

    def __init__(self, term: Term, shared: bool = True) -> None:
        self.inputs = len(term.source)
        self.types: list[NdArrayType] = list(term.source.table)
        self.names: dict[int, str] = {}
        self.nodes: list[Node] = []
        every, types, first = edges(term), term.H.w.table, dict[tuple[Op, tuple[int, ...]], tuple[int, ...]]()
        of_wire = {wire: i for i, wire in enumerate(term.s.table.tolist())}
        for k in schedule(term):
            op, sources, targets = every[k]
            ins = tuple([of_wire[wire] for wire in sources])
            if isinstance(op, (Copy, Label, Discard)):
                of_wire.update(dict.fromkeys(targets, ins[0]))
                if isinstance(op, Label):
                    self.names.setdefault(ins[0], op.name)
                continue
            outs = first.get((op, ins)) if shared else None
            if outs is None:
                outs = self._add(op, ins, [types[wire] for wire in targets])
            if shared:
                first[op, ins] = outs
            of_wire.update(zip(targets, outs, strict=True))
        self.results = [of_wire[wire] for wire in term.t.table.tolist()]
        self.producer = {value: node for node in self.nodes for value in node.outputs}

    def _add(self, op: Op, inputs: tuple[int, ...], types: Sequence[NdArrayType]) -> tuple[int, ...]:
        outputs = tuple(range(len(self.types), len(self.types) + len(types)))
        self.types += types
        self.nodes.append(Node(op, inputs, outputs))
        return outputs

    def recomputed(self, saved: set[int], free: frozenset[int]) -> set[int]:
        """Return the values that operations on elements compute from others that are saved or free."""
        known, cheap = saved | free, set[int]()
        for node in self.nodes:
            is_cheap = node.op.rearranges or (node.op.elementwise and not node.op.costly)
            if is_cheap and known.issuperset(node.inputs):
                cheap.update(node.outputs)
                known.update(node.outputs)
        return cheap

    def ancestors(self, values: Sequence[int], stop: frozenset[int]) -> list[Node]:
        """Return the nodes that compute these values from those in `stop`, in order."""
        found, stack = set(), [value for value in values if value not in stop]
        while stack:
            node = self.producer.get(stack.pop())
            if node is not None and node.outputs not in found:
                found.add(node.outputs)
                stack += [value for value in node.inputs if value not in stop]
        return [node for node in self.nodes if node.outputs in found]

    def closure(self, inputs: range) -> frozenset[int]:
        """Return the values that depend on these inputs only."""
        known = set(inputs)
        for node in self.nodes:
            if known.issuperset(node.inputs):
                known.update(node.outputs)
        return frozenset(known)

    def term(self, inputs: Sequence[int], nodes: Sequence[Node], results: Sequence[int]) -> Term:
        """Build a term from these nodes."""

        def body(*arguments: Any) -> Any:
            values = {v: self._named(v, a) for v, a in zip(inputs, arguments, strict=True)}
            for op, ins, outs in nodes:
                new = op.apply(*(values[value] for value in ins))
                values |= {v: self._named(v, y) for v, y in zip(outs, new, strict=True)}
            return [values[value] for value in results]

        return build(body, [self.types[value] for value in inputs])

    def _named(self, value: int, variable: Any) -> Any:
        return Label(self.names[value])(variable) if value in self.names else variable
