"""Terms: open hypergraphs whose wires are array types and whose hyperedges are operations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
from open_hypergraphs import FiniteFunction, Hypergraph, IndexedCoproduct, OpenHypergraph

from catgrad.dims import Size
from catgrad.errors import OptionError, ShapeError, TermError, TypeMismatch, one_line
from catgrad.terms.components import connected_components
from catgrad.terms.op import Op, builder_of, is_running
from catgrad.terms.structural import Copy, Discard
from catgrad.types import Array, NdArrayType


class Edge(NamedTuple):
    """A hyperedge: an operation with its source and target wires."""

    op: Op
    sources: tuple[int, ...]
    targets: tuple[int, ...]


class Term(OpenHypergraph):  # type: ignore[misc]  # open-hypergraphs is not annotated
    """A morphism A₁ ⊗ … ⊗ Aₘ → B₁ ⊗ … ⊗ Bₙ. Compose with `f >> g`, tensor with `f @ g`.

    A term is also a function on variables: inside `build`, `f(x, y)` applies it.
    Raises: ShapeError from `>>` if the wires between the two do not agree.
    """

    def compose(f, g: Term) -> Term:
        return compose(f, g)

    def __rshift__(f, g: Term) -> Term:
        require_term("g", g, "f >> g")
        return compose(f, g)

    def __matmul__(f, g: Term) -> Term:
        require_term("g", g, "f @ g")
        return tensor(f, g)

    def apply(self, *arguments: Any) -> tuple[Any, ...]:
        """Apply to variables; the outputs, always as a tuple."""
        return builder_of(arguments, "a term").splice(self, arguments)

    def __call__(self, *arguments: Any) -> Any:
        """Apply to variables, or run on arrays by the interpreter (`catgrad.programs.program.evaluate`)."""
        results = self.run(*arguments) if is_running(arguments) else self.apply(*arguments)
        return results[0] if len(results) == 1 else results

    def run(self, *arrays: Any) -> tuple[Any, ...]:
        """Evaluate on arrays, by the reference of each operation in NumPy. Raises: as `evaluate`."""
        from catgrad.programs.program import evaluate

        return tuple(evaluate(self, *arrays))

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        """The operations, in storage order."""
        sources, targets = _lists(self.H.s), _lists(self.H.t)
        return tuple([Edge(op, s, t) for op, s, t in zip(self.H.x.table, sources, targets, strict=True)])

    def __repr__(self) -> str:
        return f"Term({_object_text(self.source)} -> {_object_text(self.target)}, {self.H.X} operations)"

    def _repr_svg_(self) -> str | None:
        from catgrad.terms.draw import svg_or_warning

        return svg_or_warning(self)


def require_term(must: str, value: Any, subject: str = "") -> None:
    """Raise TypeMismatch unless a value is a term."""
    if isinstance(value, Term):
        return
    hint = "write build(function, types)"
    if isinstance(value, (tuple, list)):
        hint = "write sequential(first, second) for a list of layers"
    elif callable(value):
        hint += ", or the types of a layer, such as layers.relu(x)"
    raise TypeMismatch(f"{must} must be a term", f"it is {one_line(repr(value))}", hint, subject=subject)


NO_TYPES = FiniteFunction(None, np.array([], dtype=object))
NO_OPS = FiniteFunction(None, np.array([], dtype=object))
NO_WIRES = np.array([], dtype=FiniteFunction.Dtype)


def obj(*types: NdArrayType) -> FiniteFunction:
    """Return the object A₁ ⊗ … ⊗ Aₙ."""
    return FiniteFunction(None, _labels(types))


def wires(indices: Iterable[int], count: int) -> FiniteFunction:
    """Return a finite function into `count` wires."""
    return FiniteFunction(count, np.fromiter(indices, dtype=FiniteFunction.Dtype))


def assemble(
    types: Sequence[NdArrayType], edges: Sequence[Edge], sources: Sequence[int], targets: Sequence[int]
) -> Term:
    """Return the term with these wires, operations and boundaries, in time linear in their number."""
    count = len(types)
    hypergraph = Hypergraph(
        s=_segments([edge.sources for edge in edges], count),
        t=_segments([edge.targets for edge in edges], count),
        w=obj(*types),
        x=FiniteFunction(None, _labels([edge.op for edge in edges])),
    )
    return Term(wires(sources, count), wires(targets, count), hypergraph)


def edges(term: Term) -> tuple[Edge, ...]:
    """Return the operations of a term, in storage order."""
    return term.edges


def substituted(term: Term, image: Callable[[Op, tuple[NdArrayType, ...]], Term | None]) -> Term:
    """Replace operations by their images at the types of their operands; those without one stay."""
    types, found = list(term.H.w.table), list[Edge]()
    same: dict[int, int] = {}
    for edge in edges(term):
        inside = image(edge.op, tuple([types[wire] for wire in edge.sources]))
        if inside is None:
            found.append(edge)
            continue
        place = dict(zip(inside.s.table.tolist(), edge.sources, strict=True))
        for inner, outer in zip(inside.t.table.tolist(), edge.targets, strict=True):
            if place.setdefault(inner, outer) != outer:
                same[outer] = place[inner]  # a result that is an argument
        for wire, type in enumerate(inside.H.w.table):
            if wire not in place:
                place[wire] = len(types)
                types.append(type)
        get = place.__getitem__
        found += [Edge(op, tuple(map(get, ins)), tuple(map(get, outs))) for op, ins, outs in edges(inside)]
    sources, targets = term.s.table.tolist(), term.t.table.tolist()
    return _merged(types, found, sources, targets, same) if same else assemble(types, found, sources, targets)


def _merged(
    types: Sequence[NdArrayType],
    every: Sequence[Edge],
    sources: Sequence[int],
    targets: Sequence[int],
    same: Mapping[int, int],
) -> Term:
    """Assemble a term in which some wires are the `same` as others."""

    def first(wire: int) -> int:
        while wire in same:
            wire = same[wire]
        return wire

    kept = [wire for wire in range(len(types)) if wire not in same]
    number = {wire: k for k, wire in enumerate(kept)}
    get = [number[first(wire)] for wire in range(len(types))].__getitem__
    renumbered = [Edge(op, tuple(map(get, ins)), tuple(map(get, outs))) for op, ins, outs in every]
    return assemble([types[w] for w in kept], renumbered, [*map(get, sources)], [*map(get, targets)])


def identity(*types: NdArrayType) -> Term:
    """A → A, the wires themselves."""
    return permutation(types, range(len(types)))


def permutation(types: Sequence[NdArrayType], order: Sequence[int]) -> Term:
    """A₁ ⊗ … ⊗ Aₙ → A_{p(1)} ⊗ … ⊗ A_{p(n)}. Raises: OptionError if p is no permutation."""
    if sorted(order) != list(range(len(types))):
        raise OptionError(
            f"the order of {len(types)} wires must hold each of 0 … {len(types) - 1} once",
            f"it is {list(order)}",
            "name every position exactly once",
        )
    return assemble(types, [], range(len(types)), order)


def copy(*types: NdArrayType) -> Term:
    """A → A ⊗ A, by the operation Copy on each wire (never by a Frobenius spider)."""
    n = len(types)
    copies = [Edge(Copy(), (i,), (n + i, 2 * n + i)) for i in range(n)]
    return assemble([*types, *types, *types], copies, range(n), range(n, 3 * n))


def discard(*types: NdArrayType) -> Term:
    """A → I."""
    return assemble(types, [Edge(Discard(t), (i,), ()) for i, t in enumerate(types)], range(len(types)), [])


def singleton(op: Op, *inputs: NdArrayType) -> Term:
    """Return the term of one operation at these input types."""
    outputs = op.outputs(*inputs)
    m, n = len(inputs), len(outputs)
    edge = Edge(op, tuple(range(m)), tuple(range(m, m + n)))
    return assemble([*inputs, *outputs], [edge], edge.sources, edge.targets)


def tensor(*terms: Term) -> Term:
    """f₁ ⊗ … ⊗ fₙ, assembled once."""
    starts = _starts(terms)
    count = starts[-1]
    return Term(
        s=FiniteFunction(count, _joined([f.s for f in terms], starts)),
        t=FiniteFunction(count, _joined([f.t for f in terms], starts)),
        H=_quotient(terms, starts, np.arange(count, dtype=FiniteFunction.Dtype), count),
    )


def compose(*terms: Term) -> Term:
    """f₁ ; … ; fₙ, assembled once: linear in the sum of the sizes.

    Raises: ShapeError if the target of one is not the source of the next; OptionError if empty.
    """
    if not terms:
        raise OptionError("a composition must have a term", "there is none", "use identity(...)")
    for f, g in pairwise(terms):
        _check_composable(f, g)
    starts = _starts(terms)
    ends = _joined([f.t for f in terms[:-1]], starts)
    begins = _joined([g.s for g in terms[1:]], starts[1:])
    glued, count = connected_components(ends, begins, starts[-1])
    return Term(
        s=FiniteFunction(count, glued[terms[0].s.table]),
        t=FiniteFunction(count, glued[terms[-1].t.table + starts[-2]]),
        H=_quotient(terms, starts, glued, count),
    )


def map_operations(term: Term, change: Callable[[Op], Op]) -> Term:
    """Replace each operation by one of the same type."""
    h = term.H
    relabelled = FiniteFunction(None, _labels([change(op) for op in h.x.table]))
    return Term(term.s, term.t, Hypergraph(h.s, h.t, h.w, relabelled))


def substitute(term: Term, sizes: Mapping[str, Size]) -> Term:
    """Substitute `sizes[name]` for each symbolic dimension: a functor that preserves the diagram.

    Raises: ShapeError if the operations do not type-check at these sizes.
    """
    changed = [Edge(edge.op.substitute(sizes), edge.sources, edge.targets) for edge in edges(term)]
    types = [t.substitute(sizes) for t in term.H.w.table]
    for op, ins, _ in changed:
        op.outputs(*(types[wire] for wire in ins))
    return assemble(types, changed, term.s.table.tolist(), term.t.table.tolist())


def check_functional(term: Term) -> None:
    """Raise an error unless the term denotes a function on arrays.

    TermError unless every wire has exactly one producer and one consumer; TypeMismatch unless
    every operation accepts the types of its wires.

    The reverse of a spider would merge wires, which is not addition; code of a dangling or doubly
    written wire would read or overwrite an undefined value.
    Source: monogamous cospans, Bonchi et al. 2022, String diagram rewrite theory II, section 3.
    """
    check_monogamous(term)
    types = term.H.w.table
    for op, sources, targets in edges(term):
        outputs = op.outputs(*[types[wire] for wire in sources])
        if outputs != tuple([types[wire] for wire in targets]):
            raise TypeMismatch(
                f"{type(op).__name__} must write wires of types {_object_text(outputs)}",
                f"they are {_object_text(types[wire] for wire in targets)}",
                "assemble terms by build, which infers types",
            )


def check_monogamous(term: Term) -> None:
    """Raise TermError unless every wire has exactly one producer and one consumer."""
    h = term.H
    produced = np.bincount(np.concatenate([term.s.table, h.t.values.table]), minlength=h.W)
    consumed = np.bincount(np.concatenate([term.t.table, h.s.values.table]), minlength=h.W)
    wrong = np.flatnonzero((produced != 1) | (consumed != 1))
    if len(wrong):
        wire = int(wrong[0])
        makers, users = _ends(term, wire)
        raise TermError(
            "every wire must have one producer and one consumer",
            f"wire {wire} of type {h.w.table[wire]} is produced by {makers} and consumed by {users}",
            "use copy and discard, or the function form of build, which inserts them",
        )


def _ends(term: Term, wire: int) -> tuple[str, str]:
    makers = [f"input {i}" for i in np.flatnonzero(term.s.table == wire)]
    users = [f"output {i}" for i in np.flatnonzero(term.t.table == wire)]
    for op, sources, targets in edges(term):
        users += [f"argument {i} of {op}" for i, w in enumerate(sources) if w == wire]
        makers += [f"result {i} of {op}" for i, w in enumerate(targets) if w == wire]
    return " and ".join(makers) or "nothing", " and ".join(users) or "nothing"


def _check_composable(f: Term, g: Term) -> None:
    left, right = list(f.target.table), list(g.source.table)
    if left != right:
        raise ShapeError(
            "f >> g: the target of f must be the source of g",
            f"they are {_object_text(left)} and {_object_text(right)}",
            "check the types of the layers on both sides",
        )


def _object_text(types: Iterable[NdArrayType]) -> str:
    return " ⊗ ".join(map(str, types)) or "I"


def _starts(terms: Sequence[Term]) -> list[int]:
    """Return the index of each term's first wire in the tensor product, and the number of all wires."""
    return [0, *accumulate(f.H.W for f in terms)]


def _joined(functions: Sequence[FiniteFunction], starts: Sequence[int]) -> Array:
    """Concatenate the tables of functions into wires, each shifted to the first wire of its term."""
    tables = [f.table + start for f, start in zip(functions, starts, strict=False)]
    return np.concatenate([NO_WIRES, *tables])


def _quotient(terms: Sequence[Term], starts: Sequence[int], glued: Array, count: int) -> Hypergraph:
    """Merge the wires of the tensor product that `glued` maps to the same one of `count`."""
    types = np.empty(count, dtype=object)
    types[glued] = np.concatenate([NO_TYPES.table, *(f.H.w.table for f in terms)])
    sides = []
    for segments in ([f.H.s for f in terms], [f.H.t for f in terms]):
        lengths = np.concatenate([NO_WIRES, *(one.sources.table for one in segments)])
        values = glued[_joined([one.values for one in segments], starts)]
        sides.append(IndexedCoproduct(FiniteFunction(None, lengths), FiniteFunction(count, values)))
    ops = np.concatenate([NO_OPS.table, *(f.H.x.table for f in terms)])
    return Hypergraph(*sides, w=FiniteFunction(None, types), x=FiniteFunction(None, ops))


def _labels(labels: Sequence[Any]) -> Array:
    # np.array would read labels that are themselves sequences as a further axis.
    return np.fromiter(labels, dtype=object, count=len(labels))


def _segments(lists: Sequence[Sequence[int]], count: int) -> IndexedCoproduct:
    lengths = np.fromiter(map(len, lists), dtype=FiniteFunction.Dtype, count=len(lists))
    flat = [wire for wires_of_one in lists for wire in wires_of_one]
    return IndexedCoproduct(FiniteFunction(None, lengths), wires(flat, count))


def _lists(segments: IndexedCoproduct) -> list[tuple[int, ...]]:
    values = segments.values.table.tolist()
    ends = np.cumsum(segments.sources.table).tolist()
    return [tuple(values[a:b]) for a, b in zip([0, *ends], ends, strict=False)]
