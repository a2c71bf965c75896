"""Columnar form of a term: distinct types and operations, and arrays of their numbers and of wires."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import chain, islice
from typing import Any, TypeVar

from catgrad.errors import TermError
from catgrad.initialisers import Stored
from catgrad.terms.attributes import (
    Write,
    guarded,
    read_operation,
    read_type,
    write_elements,
    write_operation,
    write_type,
)
from catgrad.terms.term import Edge, Term, assemble, check_functional, edges
from catgrad.terms.topological import schedule
from catgrad.types import NdArrayType

Item = TypeVar("Item", bound=Hashable)
NAMES = (
    "types", "wires", "operations", "edges", "source_counts", "sources", "target_counts", "targets",
    "inputs", "outputs",
)  # fmt: skip
"""The columns. `wires` are indices of types, `edges` of operations, and all others are wires or counts."""


def write_columns(part: Term | Stored) -> Any:
    """Return the columns of a term in its own order, with its parts in full; or the elements of an array."""
    if isinstance(part, Stored):
        return write_elements(part)
    boundary = part.s.table.tolist(), part.t.table.tolist()
    return columns(part.H.w.table, edges(part), *boundary, write_columns)


def columns(
    types: Sequence[NdArrayType],
    every: Sequence[Edge],
    inputs: Sequence[int],
    outputs: Sequence[int],
    write: Write,
) -> dict[str, Any]:
    """Return the columns of these types, operations and boundaries; `write` writes parts of attributes."""
    distinct_types, wires = _numbered(types)
    distinct_operations, labels = _numbered([edge.op for edge in every])
    return {
        "types": list(map(write_type, distinct_types)),
        "wires": wires,
        "operations": [write_operation(op, write) for op in distinct_operations],
        "edges": labels,
        "source_counts": [len(edge.sources) for edge in every],
        "sources": list(chain.from_iterable(edge.sources for edge in every)),
        "target_counts": [len(edge.targets) for edge in every],
        "targets": list(chain.from_iterable(edge.targets for edge in every)),
        "inputs": list(inputs),
        "outputs": list(outputs),
    }


def read_columns(data: Any) -> Term:
    """Parse columns to a term that is a function: monogamous, acyclic and typed.

    Raises: TermError, TypeMismatch, OptionError, UnknownName
    """
    if not isinstance(data, dict) or data.keys() != set(NAMES):
        raise _refused(
            f"have the columns {', '.join(NAMES)}", sorted(data) if isinstance(data, dict) else data
        )
    for name in NAMES:
        if not isinstance(data[name], list):
            raise _refused(f"have a list as its column {name}", data[name])
    types = [read_type(each) for each in data["types"]]
    operations = [read_operation(each, read_columns) for each in data["operations"]]
    wires = _indices(data, "wires", len(types))
    labels = _indices(data, "edges", len(operations))
    inputs, outputs = (_indices(data, name, len(wires)) for name in ("inputs", "outputs"))
    sources, targets = (_lists(data, side, len(labels), len(wires)) for side in ("source", "target"))
    every = [Edge(operations[k], s, t) for k, s, t in zip(labels, sources, targets, strict=True)]
    term = assemble([types[k] for k in wires], every, inputs, outputs)
    check(term)
    return term


def check(term: Term) -> None:
    """Raise an error unless the term is a function: monogamous, acyclic and typed."""
    with guarded("every operation must accept the types of its wires"):
        check_functional(term)
    schedule(term)


def _lists(data: dict[str, Any], side: str, count: int, wires: int) -> list[tuple[int, ...]]:
    """Cut the wires of one side of the operations into lists."""
    flat, counts = data[f"{side}s"], data[f"{side}_counts"]
    _indices(data, f"{side}s", wires)
    _indices(data, f"{side}_counts", len(flat) + 1)
    if len(counts) != count or sum(counts) != len(flat):
        found = f"{len(counts)} with the sum {sum(counts)}"
        raise _refused(f"have {count} {side} counts with the sum {len(flat)}", found)
    rest = iter(flat)
    return [tuple(islice(rest, length)) for length in counts]


def _indices(data: dict[str, Any], name: str, count: int) -> list[int]:
    """Return a column of integers from 0 to `count` - 1."""
    column: list[int] = data[name]
    for value in column:
        if type(value) is not int or not 0 <= value < count:
            raise _refused(f"have integers from 0 to {count - 1} as its column {name}", value)
    return column


def _numbered(items: Iterable[Item]) -> tuple[list[Item], list[int]]:
    """Number distinct items in the order of their first use."""
    numbers: dict[Item, int] = {}
    column = [numbers.setdefault(item, len(numbers)) for item in items]
    return list(numbers), column


def _refused(must: str, found: Any) -> TermError:
    shown = found if isinstance(found, str) else repr(found)
    return TermError(f"a term in a file must {must}", f"it has {shown[:100]}", "write the file again")
