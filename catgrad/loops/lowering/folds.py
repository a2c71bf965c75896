"""Fold (col2im): sums of what windows have of each element, the reverse of windows and of convolutions.

Where each element has a thread, it adds up windows o at offsets k with o · stride + k · dilation = i. These
offsets depend on i mod stride, so elements fall into as many classes along an axis as its stride. The sums of
products of one class are a convolution with stride 1, by the offsets of this class alone:

    stride 2, three offsets     i = 0, 2, 4, …: offsets 0 and 2     i = 1, 3, 5, …: offset 1
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd, prod

from catgrad.dims import numbers
from catgrad.loops.ir.index import ZERO, Index, Variable, index, modulo, quotient
from catgrad.loops.ir.nest import Store, Substituted, nested
from catgrad.loops.ir.scalar import Bounds, Buffer, Compute, Scalar, number
from catgrad.loops.lowering.index_maps import Indices, existing, masked, slid
from catgrad.loops.lowering.products import summed_variables, terms
from catgrad.loops.lowering.rules import Axes, Stages, element_by_element, places, regular, stage
from catgrad.loops.lowering.scatters import scatter
from catgrad.ops.arithmetic import Add
from catgrad.ops.contract import Contract
from catgrad.ops.shape import Permute, Reshape
from catgrad.ops.slices import Slice
from catgrad.ops.window import Fold, Window
from catgrad.programs.program import Apply

MAX_CLASSES = 16
"""Classes of elements, each with a nest of its own, at most."""


@stage.register
def _(op: Fold, stages: Stages, apply: Apply, position: int) -> None:
    (x,), value = apply.inputs, apply.outputs[0]
    gathers = stages.machine.gpu.gathers
    if op.is_tiled or (gathers and op.is_disjoint):
        element_by_element(stages, value)
        return
    summed = _fold_product(stages, x)
    if gathers:
        _Gathered(op, stages, x, value, summed).add()
    else:
        window = Window(op.shape, op.axes, op.sizes, op.strides, op.dilations)
        loops = [Variable(size) for size in op.windowed]
        at, rank = tuple(map(index, loops)), len(op.shape)
        others = [v for axis, v in enumerate(loops[:rank]) if axis not in op.axes]
        order = [*others, *loops[rank:], *(loops[axis] for axis in op.axes)]
        one = Substituted(dict.fromkeys(summed, ZERO))  # a term
        scatter(stages, value, slid(window, at), order, one.scalar(stages.elements.at(x, at)), len(others))


@dataclass(frozen=True)
class _Class:
    """The elements first + q · stride of an axis, for q below `count`, and the offsets in windows there.

    Offset `offset` + k · `step`, for k below `offsets`, is that of window q + `window` − k · `back`.
    """

    first: int
    count: int
    offset: int
    offsets: int
    step: int
    window: int
    back: int


def _classes(start: int, length: int, size: int, stride: int, dilation: int) -> Iterator[_Class]:
    """Yield the classes of a part of an axis, from its `start`."""
    step, back = stride // gcd(stride, dilation), dilation // gcd(stride, dilation)
    for first in range(min(stride, length)):
        meeting = [k for k in range(size) if (start + first - k * dilation) % stride == 0]
        offset = meeting[0] if meeting else 0
        window = (start + first - offset * dilation) // stride
        yield _Class(first, -(-(length - first) // stride), offset, len(meeting), step, window, back)


class _Gathered:
    """The nests of a fold whose elements are summed where they lie, over products that are `summed`.

    If a slice alone reads the fold, as the image without its padding, only this part is computed, as that.
    """

    def __init__(self, op: Fold, stages: Stages, x: int, value: int, summed: Sequence[Variable]) -> None:
        self.op, self.stages, self.x, self.summed = op, stages, x, summed
        self.value, self.starts, self.shape = value, (0,) * len(op.shape), op.shape
        match stages.choice.readers(value):
            case [Apply(Slice() as part, _, (result,))] if value not in stages.function.results:
                self.value, self.starts, self.shape = result, part.starts, part.sizes
                name = stages.names.of(result, stages.names.of(value))
                stages.arrays.setdefault(result, Buffer(name, stages.types[result]))

    def add(self) -> None:
        """Add a nest for each class of elements if products of several terms are summed, or one for all."""
        if prod(self.op.strides) > MAX_CLASSES or all(v.extent == 1 for v in self.summed):
            self._add_all()
            return
        lengths = numbers(tuple(self.shape[axis] for axis in self.op.axes))
        axes = [
            [*_classes(self.starts[axis], length, *sliding)]
            for length, (axis, *sliding) in zip(lengths, self._axes(), strict=True)
        ]
        # Classes with most offsets come first, as the last ones end a grid.
        for classes in sorted(product(*axes), key=lambda each: -prod(c.offsets for c in each)):
            self._add_class(classes)
        self.stages.add([], self.value)

    def _axes(self) -> Iterator[tuple[int, int, int, int]]:
        op = self.op
        return zip(op.axes, op.sizes, op.strides, op.dilations, strict=True)

    def _add_class(self, classes: Sequence[_Class]) -> None:
        """Sum windows q + window − k · back at elements first + q · stride; zeros, if no offset meets."""
        within = [Variable(each.offsets, "k") for each in classes]
        offsets = [index(k) * each.step + each.offset for k, each in zip(within, classes, strict=True)]
        shape = list(self.shape)
        for axis, each in zip(self.op.axes, classes, strict=True):
            shape[axis] = each.count

        def term(at: Indices) -> Scalar:
            triples = zip(self.op.axes, within, classes, strict=True)
            windows = [at[axis] - index(k) * each.back + each.window for axis, k, each in triples]
            return self._term(at, windows, offsets)

        meets = all(each.offsets for each in classes)
        array = self.stages.array(self.value)
        axes, scalar = regular(shape, term if meets else lambda _: number(0, array.type.dtype))
        at = list(places(axes))
        for axis, stride, each in zip(self.op.axes, self.op.strides, classes, strict=True):
            at[axis] = at[axis] * stride + each.first
        if meets:
            self._reduce(at, axes, within, scalar)
        else:
            variables = [v for axis in axes for v in axis]
            self.stages.add(nested(variables, [Store(array, tuple(at), scalar)]))

    def _add_all(self) -> None:
        """Sum, at each element i, the windows o with o · stride + k · dilation = i, if there are any."""
        within = [Variable(size, "k") for size in self.op.sizes]

        def term(at: Indices) -> Scalar:
            windows, conditions = list[Index](), list[Bounds]()
            for k, (axis, size, stride, dilation) in zip(within, self._axes(), strict=True):
                steps = -(-(size - 1) * dilation // stride)
                start = at[axis] + self.starts[axis] - index(k) * dilation + stride * steps
                windows.append(quotient(start, stride) - steps)
                conditions += [Bounds(modulo(start, stride), 1, False, True)] if stride > 1 else []
            return self._term(at, windows, [*map(index, within)], conditions)

        axes, scalar = regular(self.shape, term)
        self._reduce(places(axes), axes, within, scalar)

    def _term(
        self,
        at: Indices,
        windows: Sequence[Index],
        offsets: Sequence[Index],
        conditions: Sequence[Bounds] = (),
    ) -> Scalar:
        """Return what windows have at offsets, if they exist.

        Of products that are summed, the factor of windows is masked: they remain products.
        """
        op, whole = self.op, [i + start for i, start in zip(at, self.starts, strict=True)]
        for axis, window in zip(op.axes, windows, strict=True):
            whole[axis] = window
        exist = [bound for axis in op.axes for bound in existing(whole[axis], op.windowed[axis])]
        inside, conditions = self.stages.elements.at(self.x, (*whole, *offsets)), [*exist, *conditions]
        if not (self.summed and isinstance(inside, Compute)):
            return masked(inside, conditions)
        own = {v for axis in op.axes for v in at[axis].variables()}
        factors = (masked(f, conditions) if own & f.variables else f for f in inside.operands)
        return Compute(inside.op, inside.dtype, tuple(factors))

    def _reduce(self, at: Sequence[Index], axes: Axes, within: Sequence[Variable], scalar: Scalar) -> None:
        """Add the sum of a scalar over offsets and products for each element."""
        free = [v for axis in axes for v in axis]
        self.stages.reduce(self.value, tuple(at), free, [*within, *self.summed], Add(), scalar)


def _fold_product(stages: Stages, value: int) -> list[Variable]:
    """Let the elements of a value be the terms of a folded contraction; returns what it sums over."""
    while value not in stages.choice.folded:
        apply, _ = stages.elements.producer.get(value, (None, 0))
        if apply is None or not isinstance(apply.op, (Permute, Reshape)):
            return []
        (value,) = apply.inputs
    contraction, _ = stages.elements.producer[value]
    assert isinstance(contraction.op, Contract)
    summed = summed_variables(contraction.op, [stages.types[v] for v in contraction.inputs])
    stages.elements.sources[value] = terms(stages, contraction, summed)
    return [*summed.values()]
