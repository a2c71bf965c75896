"""Axes that arrays have in common: union-find (Tarjan 1975) over the operations of a function.

Two axes are one if an operation goes along both with one index. So a hidden layer is one axis of its weight,
of its activations and of the next layer's weight; heads, which a reshape takes out of a width, are one with
it, as blocks of it are blocks of heads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import singledispatch

from catgrad.dims import Size, product
from catgrad.ops.contract import Contract
from catgrad.ops.extrema import Extremum
from catgrad.ops.gather import Gather
from catgrad.ops.reduce import Broadcast, Sum
from catgrad.ops.shape import Permute, Reshape
from catgrad.ops.slices import Pad, Slice, Split
from catgrad.ops.softmax import AlongAxis, LogSumExp
from catgrad.ops.window import Window
from catgrad.programs.program import Function
from catgrad.terms.op import Op
from catgrad.types import NdArrayType

Axis = tuple[int, int]
"""A value of a function, and the number of one of its axes."""

Place = tuple[int, int]
"""An operand of an operation, or its `RESULT`, and the number of one of its axes."""

RESULT = -1

Types = Sequence[NdArrayType]


class CommonAxes:
    """The axes of a function's values, each class of those in common as one of them, its representative.

    `reductions` counts the operations that sum along an axis, or choose along it, as extrema and gathers do.
    """

    def __init__(self, function: Function) -> None:
        self.function = function
        self._parents: dict[Axis, Axis] = {}
        reduced: list[Axis] = []
        for op, inputs, outputs in function.body:
            operands = [function.types[value] for value in inputs]
            reduced += ((inputs[operand], axis) for operand, axis in reductions(op))
            for output in outputs:
                values = (*inputs, output)
                for (a, i), (b, j) in common(op, operands, function.types[output]):
                    self._parents[self.find((values[a], i))] = self.find((values[b], j))
        self.reductions = Counter(map(self.find, reduced))

    def find(self, axis: Axis) -> Axis:
        """Return the representative of an axis."""
        while (parent := self._parents.setdefault(axis, axis)) != axis:
            self._parents[axis] = axis = self._parents[parent]
        return axis

    def sizes(self) -> dict[Axis, set[Size]]:
        """Return the sizes of the axes of each class; some are multiples of others, as widths of heads."""
        found: dict[Axis, set[Size]] = {}
        for value, axis in [*self._parents]:
            found.setdefault(self.find((value, axis)), set()).add(self.function.types[value].shape[axis])
        return found


@singledispatch
def common(op: Op, operands: Types, result: NdArrayType) -> Iterable[tuple[Place, Place]]:
    """Yield pairs of axes in common: of an operand and the result those at one position and of one size."""
    for k, type in enumerate(operands):
        sizes = enumerate(zip(type.shape, result.shape, strict=False))
        yield from (((k, axis), (RESULT, axis)) for axis, (n, m) in sizes if n == m)


@common.register(Split)
@common.register(Slice)
@common.register(Pad)
def _(op: Split | Slice | Pad, operands: Types, result: NdArrayType) -> Iterable[tuple[Place, Place]]:
    """Yield also axes that are cut: the parts of a fused projection have the same heads."""
    return (((0, axis), (RESULT, axis)) for axis in range(result.rank))


@common.register
def _(op: Window, operands: Types, result: NdArrayType) -> Iterable[tuple[Place, Place]]:
    """Yield also the axes within windows, of which each is the axis that these slide along."""
    yield from (((0, axis), (RESULT, axis)) for axis in range(len(op.shape)))
    yield from (((0, axis), (RESULT, len(op.shape) + n)) for n, axis in enumerate(op.axes))


@common.register
def _(op: Contract, operands: Types, result: NdArrayType) -> Iterable[tuple[Place, Place]]:
    places = [(k, axis) for k, labels in enumerate((op.left, op.right)) for axis in range(len(labels))]
    seen: dict[int, Place] = {label: (RESULT, axis) for axis, label in enumerate(op.out)}
    for label, place in zip((*op.left, *op.right), places, strict=True):
        yield place, seen.setdefault(label, place)


@common.register
def _(op: Permute, operands: Types, result: NdArrayType) -> Iterable[tuple[Place, Place]]:
    return (((0, before), (RESULT, after)) for after, before in enumerate(op.order))


@common.register
def _(op: Reshape, operands: Types, result: NdArrayType) -> Iterable[tuple[Place, Place]]:
    """Yield the outermost axes of each group of axes that are reshaped to others."""
    before, after = op.before, op.after
    i = j = 0
    while i < len(before) and j < len(after):
        yield (0, i), (RESULT, j)
        ends = ((m, n) for m in range(i, len(before)) for n in range(j, len(after)))
        same = ((m, n) for m, n in ends if product(before[i : m + 1]) == product(after[j : n + 1]))
        i, j = (n + 1 for n in next(same, (len(before), len(after))))


@common.register
def _(op: Gather, operands: Types, result: NdArrayType) -> Iterable[tuple[Place, Place]]:
    rank = operands[1].rank
    yield from (((1, axis), (RESULT, axis)) for axis in range(rank))
    yield from (((0, axis), (RESULT, rank + axis - 1)) for axis in range(1, operands[0].rank))


@common.register(Broadcast)
@common.register(Sum)
def _(op: Broadcast | Sum, operands: Types, result: NdArrayType) -> Iterable[tuple[Place, Place]]:
    kept = [axis for axis in range(len(op.shape)) if axis not in op.axes]
    own, other = (RESULT, 0) if isinstance(op, Broadcast) else (0, RESULT)
    return (((own, axis), (other, n)) for n, axis in enumerate(kept))


@common.register(Extremum)
@common.register(LogSumExp)
def _(op: Extremum | LogSumExp, operands: Types, result: NdArrayType) -> Iterable[tuple[Place, Place]]:
    return (((0, n + (n >= op.axis)), (RESULT, n)) for n in range(result.rank))


def reductions(op: Op) -> Iterator[Place]:
    """Yield the axes of operands that an operation sums over, or chooses along."""
    if isinstance(op, Contract):
        yield from ((0, axis) for axis, label in enumerate(op.left) if label not in op.out)
    elif isinstance(op, Sum):
        yield from ((0, axis) for axis in op.axes)
    elif isinstance(op, Extremum | LogSumExp | AlongAxis):
        yield 0, op.axis
    elif isinstance(op, Gather):
        yield 0, 0
