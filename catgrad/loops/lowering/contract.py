"""Contractions as matrix products: which labels are rows, columns and sums, and which are looped over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from catgrad.dims import Size, product
from catgrad.loops.ir.index import Index, Variable, modulo, quotient
from catgrad.loops.ir.nest import size_hint

MIN_PRODUCT_WORK = 2**14
"""Multiplications of a contraction below which plain loops compute it."""

MIN_DEPTH = 256
"""Terms of the sums of one product, from which further summed labels are looped over."""

MAX_NESTED_AXES = 6
"""Labels that may be one axis of a product though they are several axes of an operand."""

Labels = tuple[int, ...]
Strides = tuple[Size, Size, Size]
"""Strides of a label in elements: in the left operand, the right one and the result."""


@dataclass(frozen=True)
class Form:
    """A matrix product for each value of the `outer` labels; the groups m, n and k are one axis each.

    Elements of n are contiguous in the result. In a `nested` form, the axes of operands may be nested.
    """

    outer: tuple[int, ...]
    sums: tuple[int, ...]
    m: tuple[int, ...]
    n: tuple[int, ...]
    k: tuple[int, ...]
    nested: bool = False

    def work(self, sizes: Mapping[int, Size]) -> int:
        """Multiplications of one matrix product."""
        return size_hint(product(tuple(sizes[label] for label in (*self.m, *self.n, *self.k))))


def form(
    left: Labels,
    right: Labels,
    out: Labels,
    sizes: Mapping[int, Size],
    strides: Mapping[int, Strides],
    nested: bool = False,
) -> Form:
    """The matrix product of a contraction whose right operand has the innermost label of the result."""
    shared = [label for label in out if label in left and label in right and label in sizes]
    m = [label for label in left if label in out and label not in right and label in sizes]
    n = [label for label in right if label in out and label not in left and label in sizes]
    k = [label for label in left if label not in out and label in sizes]
    rows = _core(m, sizes, strides, (2,) if nested else (0, 2))
    columns = _core(n, sizes, strides, (2,) if nested else (1, 2), innermost=2)
    sums = _deep(k, sizes, strides) if nested else _core(k, sizes, strides, (0, 1))
    rest = [label for label in out if label in {*shared, *m, *n}.difference(rows, columns)]
    return Form(tuple(rest), tuple(label for label in k if label not in sums), rows, columns, sums, nested)


def _deep(
    labels: Sequence[int], sizes: Mapping[int, Size], strides: Mapping[int, Strides]
) -> tuple[int, ...]:
    """Take the labels with the least strides, until sums of their products are long enough."""
    ordered = sorted(labels, key=lambda l: [abs(size_hint(strides[l][side])) for side in (0, 1)])
    taken: list[int] = []
    while ordered and size_hint(product(tuple(sizes[label] for label in taken))) < MIN_DEPTH:
        taken.insert(0, ordered.pop(0))
    return tuple(taken)


def _core(
    labels: Sequence[int],
    sizes: Mapping[int, Size],
    strides: Mapping[int, Strides],
    sides: Sequence[int],
    innermost: int | None = None,
) -> tuple[int, ...]:
    """Find the largest group of labels that is one axis in both arrays."""
    ordered = sorted(labels, key=lambda l: [-size_hint(strides[l][s]) for s in reversed(sides)])
    groups: list[list[int]] = []
    for label in ordered:
        if groups and all(strides[groups[-1][-1]][s] == strides[label][s] * sizes[label] for s in sides):
            groups[-1].append(label)
        else:
            groups.append([label])
    if innermost is not None:
        groups = [g for g in groups if strides[g[-1]][innermost] == 1]
    return tuple(max(groups, key=lambda g: size_hint(product(tuple(sizes[l] for l in g))), default=()))


def joined(labels: Sequence[int], sizes: Mapping[int, Size], name: str) -> tuple[Variable, dict[int, Index]]:
    """One variable for a group of labels, and each label in terms of it."""
    variable = Variable(product(tuple(sizes[label] for label in labels)), name)
    place, indices = Index(((variable, 1),)), {}
    for label in reversed(labels[1:]):
        indices[label] = modulo(place, sizes[label])
        place = quotient(place, sizes[label])
    if labels:
        indices[labels[0]] = place
    return variable, indices
