"""Data movement: reshape and permutation of axes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index

import numpy as np

from catgrad.dims import Size, exact_quotient, numbers, product
from catgrad.errors import OptionError, ShapeError
from catgrad.terms.op import NOTHING, Examples, Op, Types
from catgrad.terms.var import Var
from catgrad.types import Array, NdArrayType

__all__ = ["expand_dims", "permute", "reshape", "squeeze", "transpose"]

Shape = tuple[Size, ...]
Axes = tuple[int, ...]


class Reshape(Op):
    """The same elements in row-major order, in another shape. Its reverse is a reshape back.

    Type:     T[before] -> T[after], where both have the same number of elements
    Raises:   ShapeError if they do not, as polynomials where they are symbolic
    Gradient: dx is dy reshaped back
    """

    before: Shape
    after: Shape
    saves = NOTHING
    rearranges = True

    def type(self, x: NdArrayType) -> Types:
        require_shape(x, self.before)
        if product(self.before) != product(self.after):
            raise ShapeError(
                "the number of elements must stay the same",
                f"{shape_text(self.before)} has {product(self.before)} and "
                f"{shape_text(self.after)} has {product(self.after)}",
                "choose a shape with as many elements",
            )
        return x.with_shape(self.after)

    def ref(self, x: Array) -> Array:
        return x.reshape(numbers(self.after))

    def rev(self, dy: Var) -> Var:
        return Reshape(self.after, self.before)(dy)

    def is_identity(self, *inputs: NdArrayType) -> bool:
        return self.before == self.after

    def result_name(self, *operands: str) -> str:
        """Return `x.reshaped` for the operand x."""
        return rearranged(operands[0], "reshaped") or "reshape"

    def fuse(self, inner: Op) -> Op | None:
        return Reshape(inner.before, self.after) if isinstance(inner, Reshape) else None

    @classmethod
    def examples(cls) -> Examples:
        shapes: list[tuple[Shape, Shape]] = [
            ((2, 3), (3, 2)),
            ((2, 3), (1, 6, 1)),
            ((1,), ()),
            ((0, 4), (2, 0)),
        ]
        return [(Reshape(a, b), (NdArrayType(a),)) for a, b in shapes]


class Permute(Op):
    """Permutation of axes: axis i of the output is axis order[i] of the input.

    Type:     T[s₀, …] -> T[s_order[0], …]
    Raises:   OptionError if `order` is no permutation of the axes
    Gradient: dx is dy with its axes put back
    """

    order: Axes
    saves = NOTHING
    rearranges = True

    def type(self, x: NdArrayType) -> Types:
        if sorted(self.order) != list(range(x.rank)):
            raise OptionError(
                f"the order must name each axis of {x} once", f"it is {self.order}", "count axes from 0"
            )
        return x.with_shape(tuple(x.shape[axis] for axis in self.order))

    def ref(self, x: Array) -> Array:
        return np.transpose(x, self.order)

    def rev(self, dy: Var) -> Var:
        return Permute(tuple(sorted(range(len(self.order)), key=self.order.__getitem__)))(dy)

    def is_identity(self, *inputs: NdArrayType) -> bool:
        return self.order == tuple(range(len(self.order)))

    def result_name(self, *operands: str) -> str:
        """Return `x.permuted` for the operand x."""
        return rearranged(operands[0], "permuted") or "permute"

    def fuse(self, inner: Op) -> Op | None:
        if isinstance(inner, Permute):
            return Permute(tuple(inner.order[axis] for axis in self.order))
        return None

    @classmethod
    def examples(cls) -> Examples:
        return [
            (Permute((1, 0)), (NdArrayType((2, 3)),)),
            (Permute((2, 0, 1)), (NdArrayType((2, 3, 4)),)),
            (Permute(()), (NdArrayType(()),)),
        ]


def rearranged(name: str, how: str) -> str:
    """Name an array after the one whose elements it has, if that has a name."""
    return name and f"{name.removesuffix('.reshaped').removesuffix('.permuted')}.{how}"


def without(shape: Shape, axes: Axes) -> Shape:
    """Return the shape with these axes removed. Raises: OptionError if one is missing or named twice."""
    if sorted(set(axes)) != list(axes) or not all(0 <= axis < len(shape) for axis in axes):
        raise OptionError(
            f"axes must be distinct, ascending and within {shape_text(shape)}",
            f"they are {axes}",
            "count axes from 0",
        )
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)


def normalised(axes: int | Sequence[int] | None, rank: int) -> Axes:
    """Return axes as ascending non-negative numbers; None means all. Raises: OptionError."""
    if axes is None:
        return tuple(range(rank))
    try:
        chosen = [index(axis) for axis in (axes if isinstance(axes, Iterable) else [axes])]
    except TypeError:
        raise OptionError("axes must be integers", f"they are {axes!r}", "count axes from 0") from None
    positive = sorted(axis + rank if axis < 0 else axis for axis in chosen)
    if len(set(positive)) < len(positive) or not all(0 <= axis < rank for axis in positive):
        raise OptionError(
            f"axes must be distinct and lie between {-rank} and {rank - 1}",
            f"they are {axes}",
            "count axes from 0",
        )
    return tuple(positive)


def reshape(x: Var, *shape: Size) -> Var:
    """Reshape x; one size may be -1, and follows from the others.

    Raises: ShapeError if the sizes do not fit.
    """
    if any(isinstance(size, int) and size == -1 for size in shape):
        known = product(tuple(size for size in shape if size != -1))
        inferred = exact_quotient(x.type.size, known)
        shape = tuple(inferred if size == -1 else size for size in shape)
    return Reshape(x.shape, x.type.with_shape(shape).shape)(x)


def permute(x: Var, *order: int) -> Var:
    """Permute the axes of x to this order."""
    rank = x.type.rank
    return Permute(tuple(index(axis) + rank * (-rank <= axis < 0) for axis in order))(x)


def transpose(x: Var) -> Var:
    """Transpose x: exchange its last two axes. Raises: OptionError for fewer than two axes."""
    if x.type.rank < 2:
        raise OptionError(
            "an array must have two axes to be transposed", f"it is {x.type}", "reshape it first"
        )
    return Permute((*range(x.type.rank - 2), x.type.rank - 1, x.type.rank - 2))(x)


def squeeze(x: Var, axes: int | Sequence[int] | None = None) -> Var:
    """Remove these axes of size 1 from x, by default all of them; symbolic axes stay.

    Raises: ShapeError if one has another size.
    """
    ones = [axis for axis, size in enumerate(x.shape) if size == 1]
    chosen = normalised(ones if axes is None else axes, x.type.rank)
    if not set(chosen) <= set(ones):
        raise ShapeError(
            "an axis must have size 1 to be squeezed", f"axes {chosen} are of {x.type}", "sum over it"
        )
    return reshape(x, *without(x.shape, chosen))


def expand_dims(x: Var, axes: int | Sequence[int]) -> Var:
    """Insert axes of size 1 into x, which are `axes` of the result."""
    rank = x.type.rank + (1 if isinstance(axes, int) else len(axes))
    old = iter(x.shape)
    new = normalised(axes, rank)
    return reshape(x, *(1 if axis in new else next(old) for axis in range(rank)))


def shape_text(shape: Shape) -> str:
    """Return a shape as text for messages."""
    return f"[{','.join(map(str, shape))}]"


def require_shape(x: NdArrayType, shape: Shape) -> None:
    """Raise ShapeError unless x has this shape."""
    if x.shape != shape:
        raise ShapeError(
            f"the array must have the shape {shape_text(shape)}",
            f"it is {x}",
            "check the sizes given to this operation",
        )
