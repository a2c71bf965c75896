"""Partition the reverse derivative of a term, for some outputs and inputs, into two functions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from catgrad.functors import reverse
from catgrad.terms.build import build
from catgrad.terms.dead_code import selected
from catgrad.terms.partition import split
from catgrad.terms.structural import StopGradient, is_differentiable
from catgrad.terms.term import Term, edges
from catgrad.terms.var import Var


@dataclass(frozen=True)
class Differentiated:
    """`forward : A → B ⊗ M` and `backward : R ⊗ B′ → A′`, for some of B′ and A′.

    `saved` has for each array of the residual R its place: in A ("input", k), in B ⊗ M ("result", k).
    `inputs` are the positions in A of A′: those that the outputs depend on.
    """

    forward: Term
    backward: Term
    saved: tuple[tuple[str, int], ...]
    inputs: tuple[int, ...]


def differentiated(term: Term, inputs: Sequence[int], outputs: Sequence[int]) -> Differentiated:
    """Take the reverse derivative of a term A → B, and partition it. Raises: as `reverse`"""
    part = selected(term, outputs)
    influential = _influential(part)
    wanted = [k for k in inputs if k in influential]
    sources, optic = list(term.source.table), reverse(part)
    differentiable = [k for k, type in enumerate(sources) if is_differentiable(type)]

    def joint(*arguments: Var) -> list[Var]:
        # The values are computed twice here; the partition shares common subexpressions.
        x = arguments[: len(sources)]
        cotangents = optic.apply(*arguments)[len(outputs) :]
        found = dict(zip(differentiable, cotangents, strict=True))
        return [*term.apply(*x), *(found[k] for k in wanted)]

    whole, none = build(joint, [*sources, *part.target.table]), range(0)
    both = split(whole, len(sources), len(term.target), none, none)
    kept, saved, count = list(range(len(term.target))), [], len(term.target)
    for k, (given, result) in enumerate(zip(both.inputs, both.outputs, strict=True)):
        if given is not None:
            saved.append(("input", given))
        elif result is not None:
            saved.append(("result", result))
        else:
            saved.append(("result", len(kept)))
            kept.append(count + k)
    return Differentiated(selected(both.forward, kept), both.backward, tuple(saved), tuple(wanted))


def _influential(term: Term) -> Collection[int]:
    """Return the positions of the inputs on which the outputs depend by floating-point arrays."""
    types, producers = term.H.w.table, {wire: edge for edge in edges(term) for wire in edge.targets}
    found: set[int] = set()
    stack = list(term.t.table.tolist())
    while stack:
        wire = stack.pop()
        if wire in found or not types[wire].dtype.is_floating:
            continue
        found.add(wire)
        edge = producers.get(wire)
        if edge is not None and not isinstance(edge.op, StopGradient):
            stack += edge.sources
    return {k for k, wire in enumerate(term.s.table.tolist()) if wire in found}
