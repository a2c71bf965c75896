"""Array literals."""

from __future__ import annotations

from dataclasses import field
from math import inf, nan

import numpy as np
from numpy.typing import ArrayLike

from catgrad.dims import numbers
from catgrad.errors import OptionError, ShapeError
from catgrad.terms.op import NOTHING, Examples, Op, Types
from catgrad.terms.structural import Constant
from catgrad.terms.var import Var
from catgrad.types import Array, Dtype, NdArrayType

__all__ = ["array"]

MAX_LITERAL_ELEMENTS = 1000
"""The maximum size of an array literal in a model, as it is part of the emitted text."""


class ArrayLiteral(Op):
    """Array literal: y = elements, in row-major order.

    Type:     () -> T
    Raises:   ShapeError unless there are as many as the shape has; DtypeError if one does not fit T
    Gradient: none, for there is no input
    """

    array_type: NdArrayType
    elements: tuple[float, ...] = field(compare=False, repr=False)
    # Elements are compared by their digits, like constants.
    digits: tuple[str, ...] = field(default=(), init=False, repr=False)
    saves = NOTHING
    result = "array"

    def __post_init__(self) -> None:
        if len(self.elements) != self.array_type.size:
            raise ShapeError(
                f"there must be as many elements as {self.array_type} has",
                f"there are {len(self.elements)}",
                "give all of them, row by row",
            ).about("ArrayLiteral")
        scalar = self.array_type.with_shape(())
        kept = [Constant(scalar, element) for element in self.elements]
        object.__setattr__(self, "elements", tuple(constant.value for constant in kept))
        object.__setattr__(self, "digits", tuple(constant.digits for constant in kept))

    def type(self) -> Types:
        return self.array_type

    def ref(self) -> Array:
        elements = np.array(self.elements, self.array_type.dtype.numpy)
        return elements.reshape(numbers(self.array_type.shape))

    def rev(self, dy: Var) -> tuple[()]:
        return ()

    @classmethod
    def examples(cls) -> Examples:
        cases = [
            ArrayLiteral(NdArrayType((2, 3)), (0.1, -2, 1e-30, inf, -inf, nan)),
            ArrayLiteral(NdArrayType((2, 1, 2), Dtype.int64), (1, 2**62, -3, 0)),
            ArrayLiteral(NdArrayType((3,), Dtype.bool), (True, False, True)),
            ArrayLiteral(NdArrayType((40,), Dtype.int32), tuple(range(0, 120, 3))),
            ArrayLiteral(NdArrayType((3, 30), Dtype.float64), tuple(k / 7 for k in range(90))),
        ]
        return [(case, ()) for case in cases]


def array(values: ArrayLike, dtype: Dtype | None = None) -> Var:
    """Return the array with these elements, a number or nested lists of them or a NumPy array.

    Without a dtype, booleans make an array of bool, and numbers one of float32.

    Raises: OptionError if rows differ in length, or for more than 1000 elements that are not all
    equal; DtypeError if one does not fit the dtype.
    """
    try:
        given = np.asarray(values)
    except ValueError:
        raise OptionError(
            "the rows of an array must have one length", f"it is {values!r}", "pad the shorter ones"
        ).about("array") from None
    if dtype is None:
        dtype = Dtype.bool if given.dtype == bool and given.size else Dtype.float32
    if given.size > MAX_LITERAL_ELEMENTS and not is_uniform(given):
        raise OptionError(
            f"an array literal must have at most {MAX_LITERAL_ELEMENTS} elements",
            f"there are {given.size}",
            "make it a parameter or an input of the model",
        ).about("array")
    return literal(given, dtype)


def literal(values: Array, dtype: Dtype) -> Var:
    """Return an array as a literal of any size, which initial values may have."""
    type, elements = NdArrayType(values.shape, dtype), tuple(values.ravel().tolist())
    if is_uniform(values):
        return Constant(type, elements[0] if elements else 0)()
    return ArrayLiteral(type, elements)()


def is_uniform(values: Array) -> bool:
    """Return whether all elements have the same bits, so 0.0 and -0.0 differ."""
    return bool(values.tobytes() == values.reshape(-1)[:1].tobytes() * values.size)
