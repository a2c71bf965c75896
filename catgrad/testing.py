"""Laws and the conformance suite, for the tests of catgrad and of plug-ins.

A package that adds a target gets the whole suite in two lines:

    from catgrad.testing import check_conformance, operation_cases

    @pytest.mark.parametrize("case", operation_cases(), ids=str)
    def test_conformance(case): check_conformance("my-target", case)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import catgrad.ops  # noqa: F401  # declares the operations
from catgrad.backend import Backend, get_backend
from catgrad.functors import Expand, reverse
from catgrad.functors.reverse import cotangents
from catgrad.programs.program import Program, evaluate, lower
from catgrad.terms.block import retyped
from catgrad.terms.op import OPS
from catgrad.terms.structural import is_differentiable
from catgrad.terms.term import Term, edges, singleton
from catgrad.types import Array, Dtype, as_numpy, widened
from catgrad.verification import draw_arrays

if TYPE_CHECKING:
    import networkx


@dataclass(frozen=True)
class Case:
    """A term to test on every target, with the interval from which its inputs are drawn."""

    name: str
    term: Term
    domain: tuple[float, float] = (-2.0, 2.0)

    def __str__(self) -> str:
        return self.name


def operation_cases() -> list[Case]:
    """Return every example of every registered operation, forward and reverse."""
    cases = []
    for op_class in OPS.values():
        for number, (op, types) in enumerate(op_class.examples()):
            name = f"{op_class.__name__}-{number}"
            term = singleton(op, *types)
            cases.append(Case(name, term, op_class.domain))
            cases.append(Case(f"{name}-reverse", reverse(term), op_class.domain))
    return cases


def run_on(backend: Backend, term: Term, *arrays: Array) -> list[Array]:
    """Emit one term for a target, load it and call it."""
    function = lower(Expand(backend.has)(term), "f", doc="The term under test.")
    compiled = backend.emit(Program("case", (function,))).load()()
    # Only NumPy accepts ml_dtypes' bfloat16; all targets accept float32 in its place.
    given = [widened(array) if array.dtype.name == "bfloat16" else array for array in map(np.asarray, arrays)]
    return [as_numpy(result) for result in compiled.f(*given)]


def check_conformance(target: str, case: Case, seed: int = 0, **options: Any) -> None:
    """Raise AssertionError unless the target with these options agrees with `ref` on the case."""
    backend = get_backend(target).configured(**options)
    arrays = draw_arrays(tuple(case.term.source.table), case.domain, seed)
    results = run_on(backend, case.term, *arrays)
    wanted = evaluate(case.term, *arrays)
    if len(results) != len(wanted):
        raise AssertionError(f"{target} returns {len(results)} arrays for {case}, not {len(wanted)}")
    for result, reference, type in zip(results, wanted, case.term.target.table, strict=True):
        if result.dtype != type.dtype.numpy or result.shape != reference.shape:
            raise AssertionError(f"{target} returns {result.dtype}{result.shape} for {case}, not {type}")
        tolerance = backend.tolerance.get(type.dtype.value, 0.0)
        np.testing.assert_allclose(
            widened(result), widened(reference), rtol=tolerance, atol=tolerance, err_msg=str(case)
        )


def in_dtype(value: Any, dtype: Dtype) -> Any:
    """Return an operation, block, type or tuple of them with another dtype for float32."""
    return retyped(value, Dtype.float32, dtype)


def in_float64(value: Any) -> Any:
    """Return an operation, type or tuple of them with float64 for float32."""
    return in_dtype(value, Dtype.float64)


def check_derivative(term: Term, domain: tuple[float, float] = (-2.0, 2.0), seed: int = 0) -> None:
    """Raise AssertionError unless R[f] agrees with central differences of f, in float64.

    Along a random direction v: `⟨R[f](x, dy), v⟩ = d/dt ⟨dy, f(x + t·v)⟩` at t = 0.
    """
    types = tuple(term.source.table)
    x = draw_arrays(types, domain, seed)
    v = [
        a if t.dtype.is_floating else np.zeros_like(a)
        for a, t in zip(draw_arrays(types, seed=seed + 1), types, strict=True)
    ]
    outputs = cotangents(tuple(term.target.table))
    dy = draw_arrays(outputs, seed=seed + 2)
    gradients = evaluate(reverse(term), *x, *dy)[len(term.target) :]
    directions = [a for a, t in zip(v, types, strict=True) if is_differentiable(t)]
    found = sum(float(np.sum(g * d)) for g, d in zip(gradients, directions, strict=True))

    def along(t: float) -> float:
        moved = [a + t * d if d.dtype.kind == "f" else a for a, d in zip(x, v, strict=True)]
        values = [r for r in evaluate(term, *moved) if r.dtype != bool]
        return sum(float(np.sum(c * r)) for c, r in zip(dy, values, strict=True))

    step = 1e-5
    wanted = (along(step) - along(-step)) / (2 * step)
    if not math.isclose(found, wanted, rel_tol=1e-6, abs_tol=1e-8):
        raise AssertionError(f"the reverse derivative gives {found}, central differences give {wanted}")


def isomorphic(f: Term, g: Term) -> bool:
    """Return whether two terms are isomorphic: equal up to the numbering of wires and operations."""
    import networkx

    return bool(
        networkx.is_isomorphic(
            _as_graph(f),
            _as_graph(g),
            node_match=lambda a, b: a == b,
            edge_match=lambda a, b: (
                sorted(e["port"] for e in a.values()) == sorted(e["port"] for e in b.values())
            ),
        )
    )


def _as_graph(term: Term) -> networkx.MultiDiGraph:
    import networkx

    graph = networkx.MultiDiGraph()
    for wire, type in enumerate(term.H.w.table):
        places = [tuple(np.flatnonzero(side.table == wire)) for side in (term.s, term.t)]
        graph.add_node(("wire", wire), label=type, boundary=places)
    for k, (op, sources, targets) in enumerate(edges(term)):
        graph.add_node(("op", k), label=op, boundary=[])
        for port, wire in enumerate(sources):
            graph.add_edge(("wire", wire), ("op", k), port=port)
        for port, wire in enumerate(targets):
            graph.add_edge(("op", k), ("wire", wire), port=port)
    return graph
