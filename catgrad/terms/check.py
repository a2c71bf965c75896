"""Type checking of terms by abstract interpretation: types as values, and ranges of symbolic sizes.

The types of the inputs flow through the type rule of each operation, in topological order. The rules are
exact on symbolic sizes, which are polynomials; their requirements on sizes, such as n - 2 ≥ 1, give each
symbol a range, by interval arithmetic on linear sizes of one symbol. All other requirements remain as
conditions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from catgrad.dims import Dim, coefficients
from catgrad.errors import CatgradError, ShapeError, TypeMismatch
from catgrad.terms.block import blocks
from catgrad.terms.state import Persistent
from catgrad.terms.structural import Label
from catgrad.terms.term import Edge, Term, check_monogamous, edges
from catgrad.terms.topological import schedule
from catgrad.types import NdArrayType, symbols


class Range(NamedTuple):
    """The values of a symbol: at least `least`, and at most `most`, if that is not None."""

    least: int
    most: int | None = None

    def __str__(self) -> str:
        return f"{self.least} or more" if self.most is None else f"{self.least} to {self.most}"


class Requirement(NamedTuple):
    """A symbolic size and the least value that it may have."""

    size: Dim
    least: int

    def __str__(self) -> str:
        return f"{self.size} is at least {self.least}"


@dataclass(frozen=True)
class Checked:
    """The type of each wire, the range of each symbol, and requirements on several symbols."""

    types: tuple[NdArrayType, ...]
    ranges: Mapping[str, Range]
    requirements: tuple[Requirement, ...]


def check(term: Term) -> Checked:
    """Infer the type of each wire from those of the inputs, and compare it with the one that it has.

    Raises: TypeMismatch, ShapeError, DtypeError with the dotted name of the layer, where types disagree or no
            size meets all requirements; TermError if the term is not monogamous or not acyclic
    """
    check_monogamous(term)
    every, stated = edges(term), term.H.w.table
    types = {wire: stated[wire] for wire in term.s.table.tolist()}
    names: dict[int, str] = {}
    for k in schedule(term):
        op, sources, targets = every[k]
        layer = _layer(every[k], names)
        try:
            inferred = op.outputs(*(types[wire] for wire in sources))
        except CatgradError as error:
            raise error.about(where=layer)  # noqa: B904  # the same error
        _compare(every[k], inferred, [stated[wire] for wire in targets], layer)
        for block in blocks(op).values():
            check(block.term)
        types |= zip(targets, inferred, strict=True)
        if isinstance(op, Persistent) or (isinstance(op, Label) and not op.is_relative):
            layer = op.name
        names |= dict.fromkeys(targets, layer)
    ordered = tuple(types[wire] for wire in range(len(stated)))
    return Checked(ordered, *_ranges(ordered, requirements(ordered, every)))


def requirements(types: Sequence[NdArrayType], body: Iterable[Any]) -> tuple[Requirement, ...]:
    """Collect what operations require of symbolic sizes, and that no size is negative, loops included."""
    found: dict[Requirement, None] = {}

    def collect(types: Sequence[NdArrayType], body: Iterable[Any]) -> None:
        sizes = {size for type in set(types) for size in type.shape if isinstance(size, Dim)}
        negative = (s for s in sizes if any(coefficient < 0 for _, coefficient in s.terms))
        found.update(dict.fromkeys(Requirement(size, 0) for size in sorted(negative, key=repr)))
        for op, inputs, _ in body:
            for size, least in op.minimum_sizes(*(types[value] for value in inputs)):
                if isinstance(size, Dim):
                    found[Requirement(size, least)] = None
            for block in blocks(op).values():
                collect(block.term.H.w.table, edges(block.term))

    collect(types, body)
    return tuple(found)


def _ranges(
    types: tuple[NdArrayType, ...], required: Iterable[Requirement]
) -> tuple[dict[str, Range], tuple[Requirement, ...]]:
    """Narrow the range of each symbol by requirements on linear sizes of it; return the others too."""
    ranges = {name: Range(0) for name in symbols(tuple(set(types)))}
    rest = []
    for condition in required:
        terms = coefficients(condition.size)
        constant = terms.pop((), 0)
        (monomial, slope), *more = terms.items()
        if more or len(monomial) > 1:
            rest.append(condition)
            continue
        (name,) = monomial
        least, most = ranges.get(name, Range(0))
        bound = condition.least - constant
        if slope > 0:
            least = max(least, -(-bound // slope))
        else:
            limit = -bound // -slope
            most = limit if most is None else min(most, limit)
        if most is not None and most < least:
            raise ShapeError(
                f"{name} must have a value", f"{condition} leaves none", "check sizes and paddings"
            )
        ranges[name] = Range(least, most)
    return ranges, tuple(rest)


def _layer(edge: Edge, names: Mapping[int, str]) -> str:
    """Return the dotted name of the layer of an operation: that of its parameters, or of what precedes it."""
    found = [names[wire] for wire in edge.sources if names.get(wire)]
    dotted = [name.rpartition(".")[0] for name in found if "." in name]
    return max(dotted, key=len, default=found[0] if found else "")


def _compare(edge: Edge, inferred: Sequence[NdArrayType], stated: Sequence[NdArrayType], layer: str) -> None:
    if list(inferred) != list(stated):
        raise TypeMismatch(
            f"{type(edge.op).__name__} must give {', '.join(map(str, inferred)) or 'nothing'}",
            f"its wires are {', '.join(map(str, stated)) or 'none'}",
            "assemble terms by build, which infers types",
            where=layer,
        )
