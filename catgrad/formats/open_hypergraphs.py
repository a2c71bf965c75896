"""Terms as JSON of the Rust library `open-hypergraphs`: its type `lax::OpenHypergraph`, as serde writes it.

A node is labelled by a type, `["f32", [2, 3]]`, and an edge by an operation, `["Softmax", {"axis": 1}]`, as
in files of terms. Nodes that the list `quotient` identifies are one wire.

Source: github.com/hellas-ai/open-hypergraphs, src/lax/open_hypergraph.rs and hypergraph.rs, version 0.2
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

import catgrad.ops  # noqa: F401  # declares the operations that labels name
from catgrad.errors import ArtifactError, TermError
from catgrad.formats.json_objects import parse_object
from catgrad.terms.attributes import guarded, read_operation, read_type, write_operation, write_type
from catgrad.terms.columns import check, read_columns, write_columns
from catgrad.terms.components import connected_components
from catgrad.terms.term import Edge, Term, assemble, edges
from catgrad.types import NdArrayType

FIELDS = {"sources", "targets", "hypergraph"}
HYPERGRAPH_FIELDS = {"nodes", "edges", "adjacency", "quotient"}


def to_rust(term: Term) -> str:
    """Return the JSON of a term."""
    every = edges(term)
    hypergraph = {
        "nodes": list(map(write_type, term.H.w.table)),
        "edges": [write_operation(edge.op, write_columns) for edge in every],
        "adjacency": [{"sources": edge.sources, "targets": edge.targets} for edge in every],
        "quotient": [[], []],
    }
    boundary = {"sources": term.s.table.tolist(), "targets": term.t.table.tolist()}
    return json.dumps({**boundary, "hypergraph": hypergraph}, allow_nan=False)


def from_rust(text: str) -> Term:
    """Parse the JSON of a term that is a function.

    Raises: ArtifactError unless it is JSON of a `lax::OpenHypergraph`; TermError, TypeMismatch, OptionError
            for labels and wires that are no term of catgrad
    """
    try:
        data = parse_object(text.encode(errors="surrogatepass"))
    except (ValueError, RecursionError) as error:
        found = f"it is not: {str(error)[:100]}"
        raise ArtifactError("an open hypergraph must be JSON", found, "check that it is complete") from None
    inner = data.get("hypergraph")
    if data.keys() != FIELDS or not isinstance(inner, dict) or inner.keys() != HYPERGRAPH_FIELDS:
        raise _refused("have the fields of lax::OpenHypergraph", data)
    with guarded("an open hypergraph must be a term"):
        types = [read_type(label) for label in inner["nodes"]]
        labels = [read_operation(label, read_columns) for label in inner["edges"]]
        boundary = [_wires(data[side], len(types)) for side in ("sources", "targets")]
        left, right = (_wires(side, len(types)) for side in inner["quotient"])
        ends = [
            (_wires(each["sources"], len(types)), _wires(each["targets"], len(types)))
            for each in inner["adjacency"]
        ]
        if len(ends) != len(labels) or len(left) != len(right):
            raise _refused("have adjacent nodes for each edge, and pairs in `quotient`", inner)
        every = [Edge(op, *map(tuple, pair)) for op, pair in zip(labels, ends, strict=True)]
        term = _quotient(types, every, boundary, left, right)
    check(term)
    return term


def _quotient(
    types: list[NdArrayType], every: list[Edge], boundary: list[list[int]], left: list[int], right: list[int]
) -> Term:
    """Assemble a term in which the nodes left[i] and right[i] are one wire."""
    component, count = connected_components(np.array(left, int), np.array(right, int), len(types))
    number = component.tolist()
    joined: list[Any] = [None] * count
    for wire, type in zip(number, types, strict=True):
        if joined[wire] not in (None, type):
            raise _refused("identify nodes of one type only", f"{joined[wire]} and {type}")
        joined[wire] = type
    renumbered = [Edge(op, tuple(number[w] for w in s), tuple(number[w] for w in t)) for op, s, t in every]
    sources, targets = ([number[wire] for wire in side] for side in boundary)
    return assemble(joined, renumbered, sources, targets)


def _wires(data: object, count: int) -> list[int]:
    if not isinstance(data, list) or any(type(wire) is not int or not 0 <= wire < count for wire in data):
        raise _refused(f"have lists of nodes from 0 to {count - 1}", data)
    return data


def _refused(must: str, found: object) -> TermError:
    return TermError(f"an open hypergraph must {must}", f"it has {repr(found)[:100]}", "export it again")
