"""Terms as attributes of operations: the bodies of loops and branches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np

from catgrad.dims import Size
from catgrad.terms.op import Op
from catgrad.terms.term import Edge, Term, assemble, check_functional, edges, substitute
from catgrad.terms.topological import schedule
from catgrad.types import Array, Dtype, NdArrayType


class Block:
    """A term as an attribute of an operation; two are equal if wires and operations are, in the same order.

    Raises: TermError, TypeMismatch if the term is not a function.
    """

    __slots__ = ("_hash", "key", "term")

    def __init__(self, term: Term) -> None:
        check_functional(term)
        self.term = term
        boundary = tuple(term.s.table.tolist()), tuple(term.t.table.tolist())
        self.key = (tuple(term.H.w.table), tuple(edges(term)), boundary)
        self._hash = hash(self.key)

    @property
    def inputs(self) -> tuple[NdArrayType, ...]:
        """The types of its arguments."""
        return tuple(self.term.source.table)

    @property
    def outputs(self) -> tuple[NdArrayType, ...]:
        """The types of its results."""
        return tuple(self.term.target.table)

    def substitute(self, sizes: Mapping[str, Size]) -> Block:
        """Substitute `sizes[name]` for each symbolic dimension."""
        return Block(substitute(self.term, sizes))

    def evaluate(self, *arrays: Array) -> list[Array]:
        """Evaluate the operations in order, by their references."""
        values = dict(zip(self.term.s.table.tolist(), arrays, strict=True))
        every, types = edges(self.term), self.term.H.w.table
        for k in schedule(self.term):
            op, sources, targets = every[k]
            results = op.compute(*(values[wire] for wire in sources))
            results = results if isinstance(results, tuple) else (results,)
            for wire, result in zip(targets, results, strict=True):
                values[wire] = np.asarray(result, types[wire].dtype.numpy)
        return [values[wire] for wire in self.term.t.table.tolist()]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Block) and self.key == other.key

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"Block({self.term!r})"


class HigherOrder(Op, register=False):
    """An operation with terms as attributes, whose operations compute, round and may fail."""

    rounds_once = True
    may_fail = True

    def compute(self, *arrays: Array) -> Any:
        """Evaluate on these arrays; operations in blocks widen 16-bit numbers themselves."""
        return self.ref(*arrays)


def blocks(op: Op) -> dict[str, Block]:
    """Return the blocks among an operation's attributes, by name."""
    if not isinstance(op, HigherOrder):
        return {}
    values = {f.name: getattr(op, f.name) for f in fields(op)}
    return {name: value for name, value in values.items() if isinstance(value, Block)}


def map_blocks(op: Op, change: Callable[[Term], Term]) -> Op:
    """Apply a function to each block of an operation."""
    inside = blocks(op)
    return replace(op, **{name: Block(change(b.term)) for name, b in inside.items()}) if inside else op  # type: ignore[type-var]


def retyped(value: Any, before: Dtype, after: Dtype) -> Any:
    """Replace a dtype by another in an operation, a block, a type or a tuple of them."""
    if isinstance(value, NdArrayType):
        return NdArrayType(value.shape, after) if value.dtype is before else value
    if value is before:
        return after
    if isinstance(value, tuple):
        return tuple(retyped(v, before, after) for v in value)
    if isinstance(value, Block):
        inside = [Edge(retyped(op, before, after), ins, outs) for op, ins, outs in edges(value.term)]
        types = [retyped(type, before, after) for type in value.term.H.w.table]
        return Block(assemble(types, inside, value.term.s.table.tolist(), value.term.t.table.tolist()))
    if isinstance(value, Op) and fields(value):  # type: ignore[arg-type]
        changed = {f.name: retyped(getattr(value, f.name), before, after) for f in fields(value) if f.init}  # type: ignore[arg-type]
        return replace(value, **changed)  # type: ignore[type-var]
    return value


def any_operation(term: Term, holds: Callable[[Op], Any]) -> bool:
    """Return whether a predicate holds of any operation of the term, those in blocks included."""
    return any(
        holds(op) or any(any_operation(b.term, holds) for b in blocks(op).values())
        for op in set(term.H.x.table)
    )
