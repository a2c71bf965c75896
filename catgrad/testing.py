"""Laws and the conformance suite, for the tests of catgrad and of plug-ins.

A package that adds a target runs the whole suite in one call:

    from catgrad.testing import conformance

    def test_conformance(): conformance("mine").check()
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

import catgrad.ops  # noqa: F401  # declares the operations
from catgrad.artifact import Artifact
from catgrad.backend import Backend
from catgrad.dims import Dim, numbers
from catgrad.errors import CatgradError, DtypeError, one_line
from catgrad.functors import Expand, reverse
from catgrad.functors.reverse import cotangents
from catgrad.loops.reference import run as run_kernels
from catgrad.naming import Namer
from catgrad.programs.program import Program, evaluate, lower
from catgrad.targets import get_backend
from catgrad.terms.block import retyped
from catgrad.terms.op import OPS, Op
from catgrad.terms.structural import is_differentiable
from catgrad.terms.term import Term, edges, singleton
from catgrad.types import Array, Dtype, NdArrayType, as_numpy, widened
from catgrad.verification import draw_arrays

if TYPE_CHECKING:
    import networkx

__all__ = [
    "Batches", "Case", "Conformance", "Support", "check_conformance", "check_derivative", "conformance",
    "conformance_artifacts", "draw_arrays", "in_dtype", "in_float64", "isomorphic", "operation_cases",
    "run_kernels", "run_on",
]  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A function to test on every target, or its reverse derivative, the interval of its inputs, and the
    size of the symbol `batch` in their types.
    """

    name: str
    function: Term
    domain: tuple[float, float] = (-2.0, 2.0)
    reversed: bool = False
    batch: int = 0

    @cached_property
    def term(self) -> Term:
        """Return the term to compute, derived when it is first needed: most sessions run some cases only."""
        return reverse(self.function) if self.reversed else self.function

    @property
    def operation(self) -> str:
        """The name of the operation of a case of `operation_cases`."""
        return self.name.partition("-")[0]

    def __str__(self) -> str:
        return self.name


def operation_cases() -> list[Case]:
    """Return every example of every registered operation, forward and reverse, and on elements of 8 bits."""
    # mypy holds the class to the __hash__ of its instances
    return [case for op_class in OPS.values() for case in _cases_of(op_class)]  # type: ignore[arg-type]


@cache
def _cases_of(op_class: type[Op]) -> tuple[Case, ...]:
    cases = []
    for number, (op, types) in enumerate(op_class.examples()):
        name, function = f"{op_class.__name__}-{number}", singleton(op, *types)
        cases.append(Case(name, function, op_class.domain))
        cases.append(Case(f"{name}-reverse", function, op_class.domain, reversed=True))
    return *cases, *_stored_cases(op_class)


def _stored_cases(op_class: type[Op]) -> Iterator[Case]:
    """Yield the first example with each integer dtype of 8 bits for float32, if the operation takes it."""
    op, types = next(iter(op_class.examples()), (None, ()))
    for dtype in Dtype:
        if dtype.is_integer and not dtype.is_numeric and Dtype.float32 in (type.dtype for type in types):
            with suppress(DtypeError):
                function = singleton(*in_dtype((op, *types), dtype))
                yield Case(f"{op_class.__name__}-{dtype.value}", function)


def run_on(backend: Backend, term: Term, *arrays: Array) -> list[Array]:
    """Emit one term for a target, load it and call it."""
    [function] = _built(backend, [term])
    return _called(function, arrays)


class Batches:
    """Cases built many to a program, for targets on which building a program takes most of a test.

    `sizes` says how many share a program, by target; one where it has no entry. A batch is built when the
    first of its cases is run. If that fails, each of its cases is built alone, so that only those at fault
    fail; if none is, all of them fail with the error of the batch.
    """

    def __init__(self, cases: Sequence[Case], sizes: Mapping[str, int]) -> None:
        self._cases, self._sizes = cases, sizes
        self._places = {case.name: k for k, case in enumerate(cases)}
        self._functions: dict[tuple[str, Any, int], list[Callable[..., Any] | Exception]] = {}

    def run_on(self, backend: Backend, case: Case, *arrays: Array) -> list[Array]:
        """Call the function that was emitted for a case."""
        size = self._sizes.get(backend.name, 1)
        if size == 1:
            return run_on(backend, case.term, *arrays)
        number, place = divmod(self._places[case.name], size)
        key = backend.name, backend.options, number
        if key not in self._functions:
            batch = self._cases[number * size : (number + 1) * size]
            self._functions[key] = _built_together(backend, [each.term for each in batch])
        function = self._functions[key][place]
        if isinstance(function, Exception):
            raise function
        return _called(function, arrays)


def _built_together(backend: Backend, terms: Sequence[Term]) -> list[Callable[..., Any] | Exception]:
    """Build terms as one program, or each as one where that fails; an error stands for what has none."""
    try:
        return [*_built(backend, terms)]
    except Exception as error:
        if len(terms) == 1:
            return [error]
        alone = [f for term in terms for f in _built_together(backend, [term])]
        return alone if any(isinstance(f, Exception) for f in alone) else [error] * len(terms)


def _built(backend: Backend, terms: Sequence[Term]) -> list[Callable[..., Any]]:
    """Emit terms as the functions of one program, and load it."""
    artifact = _emitted(backend, terms)
    compiled = artifact.load()()
    return [getattr(compiled, function.name) for function in artifact.reference.functions]


def _emitted(backend: Backend, terms: Sequence[Term]) -> Artifact:
    namer, expand = Namer(), Expand(backend.has)
    functions = [lower(expand(term), namer.fresh("f"), doc="A term under test.") for term in terms]
    return backend.emit(Program("case", tuple(functions)))


def _called(function: Callable[..., Any], arrays: Sequence[Array]) -> list[Array]:
    # Only NumPy accepts ml_dtypes' bfloat16; all targets accept float32 in its place.
    given = [widened(array) if array.dtype.name == "bfloat16" else array for array in map(np.asarray, arrays)]
    return [as_numpy(result) for result in function(*given)]


def check_conformance(
    target: str, case: Case, seed: int = 0, *, batches: Batches | None = None, **options: Any
) -> None:
    """Raise AssertionError unless the target with these options agrees with `ref` on the case.

    With `batches`, the case is run in the program of its batch.
    """
    backend = get_backend(target).configured(**options)
    types = [type.substitute({"batch": case.batch}) for type in case.term.source.table]
    arrays = draw_arrays(types, case.domain, seed)
    if batches is None:
        results = run_on(backend, case.term, *arrays)
    else:
        results = batches.run_on(backend, case, *arrays)
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


@dataclass(frozen=True)
class Support:
    """Differences of a target from the reference on an operation: forward, reverse, with a symbolic batch.

    Each is empty if they agree on all examples, and else the reason. `batched` is None if no example of
    the operation has a first axis whose size may be any.
    """

    operation: str
    forward: str
    reverse: str
    batched: str | None


@dataclass(frozen=True)
class Conformance:
    """The support of every operation by a target."""

    target: str
    rows: tuple[Support, ...]
    unsupported: Mapping[str, str]

    def check(self) -> None:
        """Raise AssertionError with each operation that differs, and is not declared unsupported."""
        wrong = [
            f"{row.operation}: {reason}"
            for row in self.rows
            for reason in dict.fromkeys(filter(None, (row.forward, row.reverse, row.batched)))
            if row.operation not in self.unsupported
        ]
        if wrong:
            raise AssertionError(f"{self.target} differs from the reference:\n" + "\n".join(wrong))


def conformance(target: str, operations: Collection[str] = (), **options: Any) -> Conformance:
    """Run every example of every operation on a target: forward, in reverse, with a symbolic batch.

    If `operations` names some, only these are run.
    Raises: ToolError if emitted programs cannot run here
    """
    backend = get_backend(target).configured(**options)
    for tool in backend.needs:
        if not tool.use:
            tool.require(f"the target {target}")
    cases = _all_cases(operations)
    batches = Batches([case for some in cases.values() for case in some], {target: CASES_TOGETHER})
    rows = []
    for op, some in ((op, some) for op, some in cases.items() if some):
        reasons: dict[str, list[str]] = {"forward": [], "reverse": [], "batched": []}
        for case in some:
            kind = "batched" if "-batched" in case.name else "reverse" if case.reversed else "forward"
            reasons[kind].append(_difference(target, case, batches, options))
        first = {kind: next(filter(None, found), "") for kind, found in reasons.items()}
        batched = first["batched"] if reasons["batched"] else None
        rows.append(Support(op.__name__, first["forward"], first["reverse"], batched))
    return Conformance(target, tuple(rows), backend.unsupported)


def conformance_artifacts(
    target: str, operations: Collection[str] = (), **options: Any
) -> Iterator[Artifact]:
    """Emit the programs that `conformance` runs, for a target that compiles them on another machine."""
    backend = get_backend(target).configured(**options)
    cases = [case for some in _all_cases(operations).values() for case in some]
    for first in range(0, len(cases), CASES_TOGETHER):
        yield _emitted(backend, [case.term for case in cases[first : first + CASES_TOGETHER]])


def _all_cases(operations: Collection[str]) -> dict[type[Op], list[Case]]:
    """Return the cases of operations, of all if none are named."""
    chosen = [op for name, op in OPS.items() if not operations or name in operations]
    return {op: [*_cases_of(op), *_batched_cases(op)] for op in chosen}  # type: ignore[arg-type]


CASES_TOGETHER = 32
"""Cases that share a program: compiling one takes longer than running it."""


def _difference(target: str, case: Case, batches: Batches, options: Mapping[str, Any]) -> str:
    """Return in one line how a target differs from the reference; empty if it agrees.

    A case that fails in the program of its batch is tried alone, as a target may allow one function only.
    """
    reason = ""
    for together in (batches, None):
        try:
            check_conformance(target, case, batches=together, **options)
            return ""
        except Exception as error:  # emitted code may fail in any way
            reason = one_line(f"{case}: {error}")
    return reason


@cache
def _batched_cases(op_class: type[Op]) -> tuple[Case, ...]:
    """Return reversed examples with a symbol as their first size, where the operation allows one."""
    cases = []
    for number, (op, types) in enumerate(op_class.examples()):
        function = _batched(op, types) if types and types[0].shape else None
        if function is not None:
            size, name = numbers(types[0].shape)[0], f"{op_class.__name__}-{number}-batched"
            cases.append(Case(name, function, op_class.domain, reversed=True, batch=size))
    return tuple(cases)


def _batched(op: Op, types: Sequence[NdArrayType]) -> Term | None:
    """Return the operation with a symbol as the first size of each array that has it, or of the first."""
    shape = types[0].shape
    symbolic = (Dim("batch"), *shape[1:])
    given = {f.name: getattr(op, f.name) for f in fields(op)}  # type: ignore[arg-type]
    taken = replace(op, **{name: symbolic for name, value in given.items() if value == shape})  # type: ignore[type-var]
    all_of_it = [t.shape[:1] == shape[:1] for t in types]
    for chosen in (all_of_it, [k == 0 for k in range(len(types))]):
        with suppress(CatgradError, ValueError, TypeError):
            batched = [
                NdArrayType((Dim("batch"), *type.shape[1:]), type.dtype) if is_chosen else type
                for type, is_chosen in zip(types, chosen, strict=True)
            ]
            return singleton(taken, *batched)
    return None


def in_dtype(value: object, dtype: Dtype) -> Any:
    """Return an operation, block, type or tuple of them with another dtype for float32."""
    return retyped(value, Dtype.float32, dtype)


def in_float64(value: object) -> Any:
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
        results = zip(evaluate(term, *moved), term.target.table, strict=True)
        values = [r for r, type in results if is_differentiable(type)]
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
