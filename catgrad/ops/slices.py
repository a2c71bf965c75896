"""Slice and Pad, Split and Concat, which are each other's reverse; Flip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from catgrad.dims import Dim, Size, numbers
from catgrad.errors import OptionError, ShapeError
from catgrad.ops.extrema import iota
from catgrad.ops.reduce import broadcast, number_of
from catgrad.ops.shape import Axes, Shape, expand_dims, normalised, require_shape, shape_text
from catgrad.ops.take import take
from catgrad.terms.op import NOTHING, Examples, Op, Types
from catgrad.terms.structural import Assume, Constant
from catgrad.terms.var import Var
from catgrad.types import Array, NdArrayType

__all__ = ["concat", "flip", "pad", "slice", "split", "stack"]


class Slice(Op):
    """A block of an array: y = x[starts : starts + sizes], along every axis.

    Type:     T[whole] -> T[sizes]
    Raises:   ShapeError if the block does not lie within the array
    Gradient: dx is dy in its place, with zeros around it (the reverse is Pad)
    """

    whole: Shape
    starts: Axes
    sizes: Shape
    saves = NOTHING
    rearranges = True

    def type(self, x: NdArrayType) -> Types:
        require_shape(x, self.whole)
        require_block(self.whole, self.starts, self.sizes)
        return x.with_shape(self.sizes)

    def ref(self, x: Array) -> Any:
        return x[block(self.starts, numbers(self.sizes))]

    def rev(self, dy: Var) -> Var:
        return Pad(self.sizes, self.starts, self.whole)(dy)

    def is_identity(self, *inputs: NdArrayType) -> bool:
        return self.whole == self.sizes

    def fuse(self, inner: Op) -> Op | None:
        if not isinstance(inner, Slice):
            return None
        starts = tuple(a + b for a, b in zip(inner.starts, self.starts, strict=True))
        return Slice(inner.whole, starts, self.sizes)

    @property
    def ranges(self) -> list[tuple[int, Size] | None]:
        """Start and stop along each axis; None for the whole axis."""
        return [
            None if size == whole else (start, start + size)
            for whole, start, size in zip(self.whole, self.starts, self.sizes, strict=True)
        ]

    @classmethod
    def examples(cls) -> Examples:
        cases: list[tuple[Shape, Axes, Shape]] = [
            ((4, 3), (1, 0), (2, 3)),
            ((4, 3), (0, 2), (4, 1)),
            ((2, 3, 4), (1, 0, 1), (1, 3, 2)),
            ((3,), (3,), (0,)),
        ]
        return [(Slice(*case), (NdArrayType(case[0]),)) for case in cases]


class Pad(Op):
    """An array within a larger one of zeros: y[starts : starts + sizes] = x.

    Type:     T[sizes] -> T[whole]
    Raises:   ShapeError if it does not fit
    Gradient: dx is the block of dy (the reverse is Slice)
    """

    sizes: Shape
    starts: Axes
    whole: Shape
    saves = NOTHING

    def type(self, x: NdArrayType) -> Types:
        require_shape(x, self.sizes)
        require_block(self.whole, self.starts, self.sizes)
        return x.with_shape(self.whole)

    def ref(self, x: Array) -> Array:
        y = np.zeros(numbers(self.whole), x.dtype)
        y[block(self.starts, numbers(self.sizes))] = x
        return y

    def rev(self, dy: Var) -> Var:
        return Slice(self.whole, self.starts, self.sizes)(dy)

    def is_identity(self, *inputs: NdArrayType) -> bool:
        return self.whole == self.sizes

    @property
    def margins(self) -> list[tuple[int, Size]]:
        """Zeros before and after, along each axis."""
        places = zip(self.whole, self.starts, self.sizes, strict=True)
        return [(start, whole - start - size) for whole, start, size in places]

    @classmethod
    def examples(cls) -> Examples:
        return [
            (Pad(sizes, starts, whole), (NdArrayType(sizes),))
            for op, _ in Slice.examples()
            if isinstance(op, Slice)
            for whole, starts, sizes in [(op.whole, op.starts, op.sizes)]
        ]


class Concat(Op):
    """Concatenation of arrays along an axis; `sizes` are their sizes along it.

    Type:     (T[…, s₀, …], T[…, s₁, …], …) -> T[…, Σ sᵢ, …]
    Raises:   ShapeError if they differ along another axis
    Gradient: each array's is its part of dy (the reverse is Split)
    """

    axis: int
    sizes: Shape
    saves = NOTHING

    def type(self, *inputs: NdArrayType) -> Types:
        _require_axis(self.axis, inputs[0].rank)
        whole = sum(self.sizes)
        types = tuple(_with_size(x, self.axis, whole) for x in inputs)
        if len(set(types)) != 1 or tuple(x.shape[self.axis] for x in inputs) != self.sizes:
            raise ShapeError(
                "arrays joined along an axis must agree along the others",
                f"they are {', '.join(map(str, inputs))} for axis {self.axis} with sizes {self.sizes}",
                "reshape or slice them first",
            )
        return types[0]

    def ref(self, *arrays: Array) -> Array:
        return np.concatenate(arrays, axis=self.axis)

    def rev(self, dy: Var) -> Var:
        return Split(self.axis, self.sizes)(dy)

    def is_identity(self, *inputs: NdArrayType) -> bool:
        return len(self.sizes) == 1

    @classmethod
    def examples(cls) -> Examples:
        return [
            (Concat(0, (2, 1)), (NdArrayType((2, 3)), NdArrayType((1, 3)))),
            (Concat(1, (1, 0, 2)), (NdArrayType((2, 1)), NdArrayType((2, 0)), NdArrayType((2, 2)))),
        ]


class Split(Op):
    """Split of an array along an axis into parts of these sizes.

    Type:     T[…, Σ sᵢ, …] -> (T[…, s₀, …], T[…, s₁, …], …)
    Raises:   ShapeError if the sizes do not add up
    Gradient: dx is the cotangents of the parts, concatenated (the reverse is Concat)
    """

    axis: int
    sizes: Shape
    saves = NOTHING

    def type(self, x: NdArrayType) -> Types:
        _require_axis(self.axis, x.rank)
        if x.shape[self.axis] != sum(self.sizes):
            raise ShapeError(
                f"the sizes of the parts must add up to axis {self.axis} of {x}",
                f"they are {self.sizes}",
                "choose others",
            )
        return tuple(_with_size(x, self.axis, size) for size in self.sizes)

    def ref(self, x: Array) -> Any:
        return tuple(np.split(x, np.cumsum(numbers(self.sizes))[:-1], axis=self.axis))

    def rev(self, *cotangents: Var) -> Var:
        return Concat(self.axis, self.sizes)(*cotangents)

    def is_identity(self, *inputs: NdArrayType) -> bool:
        return len(self.sizes) == 1

    @property
    def cuts(self) -> list[Size]:
        """The start of each part but the first."""
        return [sum(self.sizes[:k]) for k in range(1, len(self.sizes))]

    @classmethod
    def examples(cls) -> Examples:
        return [(Split(0, (2, 1)), (NdArrayType((3, 2)),)), (Split(1, (1, 0, 2)), (NdArrayType((2, 3)),))]


class Flip(Op):
    """Reversal of axes: y[…, i, …] = x[…, n - 1 - i, …] for these axes.

    Type:     T[s] -> T[s]
    Raises:   OptionError if an axis is missing or named twice
    Gradient: dx is dy flipped
    """

    axes: Axes
    saves = NOTHING
    rearranges = True
    involution = True

    def type(self, x: NdArrayType) -> Types:
        normalised(self.axes, x.rank)
        return x

    def ref(self, x: Array) -> Array:
        return np.flip(x, self.axes)

    def rev(self, dy: Var) -> Var:
        return self(dy)

    @classmethod
    def examples(cls) -> Examples:
        return [(Flip(axes), (NdArrayType((2, 3)),)) for axes in ((0,), (1,), (0, 1), ())]


def slice(x: Var, starts: Sequence[Size], sizes: Sequence[Size]) -> Var:
    """Return the block of x that begins at `starts` and has these sizes.

    A part of a symbolic axis is read by index, as its place is known at run time only.
    """
    for axis, (start, size) in enumerate(zip(starts, sizes, strict=False)):
        if axis < x.type.rank and _is_symbolic_part(x.shape[axis], start, size):
            x = _taken(x, axis, start, size)
            starts = [*starts[:axis], 0, *starts[axis + 1 :]]
    return Slice(x.shape, numbers(tuple(starts)), x.type.with_shape(tuple(sizes)).shape)(x)


def pad(x: Var, margins: Sequence[tuple[Size, Size]]) -> Var:
    """Pad x with zeros before and after along each axis."""
    if len(margins) != x.type.rank or any(isinstance(m, int) and m < 0 for pair in margins for m in pair):
        raise OptionError(
            f"padding must have two margins of at least 0 for each axis of {x.type}",
            f"they are {list(margins)}",
            "write for example [(0, 0), (1, 1)]",
        )
    for axis, pair in enumerate(margins):
        if pair != (0, 0) and any(isinstance(size, Dim) for size in (x.shape[axis], *pair)):
            zeros = [[Constant(_with_size(x.type, axis, size), 0)()] if size != 0 else [] for size in pair]
            x = concat([*zeros[0], x, *zeros[1]], axis)
            margins = [*margins[:axis], (0, 0), *margins[axis + 1 :]]
    whole = tuple(before + size + after for size, (before, after) in zip(x.shape, margins, strict=True))
    return Pad(x.shape, numbers(tuple(before for before, _ in margins)), whole)(x)


def concat(arrays: Sequence[Var], axis: int = 0) -> Var:
    """Concatenate arrays along an axis."""
    if not arrays:
        raise OptionError("there must be arrays to join", "there are none", "give at least one")
    (place,) = normalised(axis, arrays[0].type.rank)
    if len(arrays) == 1:
        return arrays[0]
    # An array of another rank is refused by the type rule, with the types of all.
    sizes = tuple(x.shape[place] if place < x.type.rank else 0 for x in arrays)
    return Concat(place, sizes)(*arrays)


def stack(arrays: Sequence[Var], axis: int = 0) -> Var:
    """Stack arrays of one shape along a new axis."""
    return concat([expand_dims(x, axis) for x in arrays], axis)


def split(x: Var, sizes: Sequence[Size], axis: int = 0) -> tuple[Var, ...]:
    """Split x along an axis into parts of these sizes."""
    (place,) = normalised(axis, x.type.rank)
    return Split(place, tuple(sizes)).apply(x)


def flip(x: Var, axes: int | Sequence[int] | None = None) -> Var:
    """Reverse x along these axes, by default along all."""
    return Flip(normalised(axes, x.type.rank))(x)


def block(starts: Axes, sizes: tuple[int, ...]) -> tuple[Any, ...]:
    """Return the index of a block."""
    return tuple(np.s_[start : start + size] for start, size in zip(starts, sizes, strict=True))


def require_block(whole: Shape, starts: Axes, sizes: Shape) -> None:
    """Raise ShapeError unless the block lies within the array; a symbolic axis must be whole."""
    fits = len(whole) == len(starts) == len(sizes) and all(
        (size == total and start == 0)
        or (
            isinstance(total, int)
            and isinstance(size, int)
            and 0 <= start <= start + size <= total
            and size >= 0
        )
        for total, start, size in zip(whole, starts, sizes, strict=True)
    )
    if not fits:
        raise ShapeError(
            f"a slice must lie within {shape_text(whole)}, and span a symbolic axis",
            f"it begins at {list(starts)} and has the sizes {shape_text(sizes)}",
            "choose others",
        )


def _is_symbolic_part(whole: Size, start: Size, size: Size) -> bool:
    """Return whether a part of an axis, which is not all of it, has a symbolic place or size."""
    return (start, size) != (0, whole) and any(isinstance(each, Dim) for each in (whole, start, size))


def _taken(x: Var, axis: int, start: Size, size: Size) -> Var:
    """Read a part of an axis by index. Raises: ShapeError if it does not lie within; at run time, too"""
    distances = (start, x.shape[axis] - start - size)
    if any(isinstance(each, int) and each < 0 for each in distances):
        raise ShapeError(
            f"a slice must lie within axis {axis} of {x.type}",
            f"it begins at {start} and has the size {size}",
            "choose others",
        )
    within = Assume(1, tuple((each, 0) for each in distances if isinstance(each, Dim)))(x)
    places = iota(size)
    from_start = broadcast(number_of(start, places.dtype), places.shape)
    return take(within, places if start == 0 else places + from_start, axis)


def _with_size(x: NdArrayType, axis: int, size: Size) -> NdArrayType:
    return x.with_shape((*x.shape[:axis], size, *x.shape[axis + 1 :]))


def _require_axis(axis: int, rank: int) -> None:
    if not 0 <= axis < rank:
        raise OptionError(f"the axis must lie between 0 and {rank - 1}", f"it is {axis}", "count axes from 0")
