"""Variables: the wires of a term under construction, and the operators on them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Union, cast

import numpy as np

from catgrad.dims import Dim, Size
from catgrad.errors import ShapeError, TermError
from catgrad.terms.op import BUILDER, SYMBOLS, Builder, not_variables
from catgrad.terms.structural import Constant
from catgrad.types import Dtype, NdArrayType

Operand = Union["Var", float]
"""The other operand of an operator. Scalars of NumPy work too; its type stubs cannot express that."""


class Var:
    """A wire of a term under construction.

    `+ - * / // % ** @ > >= < <= == != & | ^ ~ << >>` apply the operations that declare these symbols;
    a Python number among the operands becomes a constant of the other operand's type. Variables never
    broadcast: shapes must be equal.
    """

    __slots__ = ("builder", "wire")
    __hash__ = None  # type: ignore[assignment]  # == builds a comparison, so no Var equals another
    __array_ufunc__ = None  # a NumPy array on the left must not take the operator over

    def __init__(self, builder: Builder, wire: int) -> None:
        self.builder, self.wire = builder, wire

    @property
    def type(self) -> NdArrayType:
        """The array type of the wire."""
        return self.builder.types[self.wire]

    @property
    def shape(self) -> tuple[Size, ...]:
        """The sizes of its axes."""
        return self.type.shape

    @property
    def dtype(self) -> Dtype:
        """The dtype of its elements."""
        return self.type.dtype

    def __repr__(self) -> str:
        return f"Var({self.type})"

    def __bool__(self) -> bool:
        raise TermError(
            "a branch must not depend on an array's value",
            f"it depends on {self!r}, which has none while the term is built",
            "use select(condition, x, y)",
        )

    def __iter__(self) -> Iterator[Var]:  # as of several outputs of an operation
        raise TypeError(f"{self!r} is one wire of a term and cannot be iterated")

    def __neg__(self) -> Var:
        return _apply("neg", self)

    def __invert__(self) -> Var:
        return _apply("~", self)

    def __add__(self, other: Operand) -> Var:
        return _infix("+", self, other)

    def __radd__(self, other: Operand) -> Var:
        return _infix("+", self, other, swapped=True)

    def __sub__(self, other: Operand) -> Var:
        return _infix("-", self, other)

    def __rsub__(self, other: Operand) -> Var:
        return _infix("-", self, other, swapped=True)

    def __mul__(self, other: Operand) -> Var:
        return _infix("*", self, other)

    def __rmul__(self, other: Operand) -> Var:
        return _infix("*", self, other, swapped=True)

    def __truediv__(self, other: Operand) -> Var:
        return _infix("/", self, other)

    def __rtruediv__(self, other: Operand) -> Var:
        return _infix("/", self, other, swapped=True)

    def __floordiv__(self, other: Operand) -> Var:
        return _infix("//", self, other)

    def __rfloordiv__(self, other: Operand) -> Var:
        return _infix("//", self, other, swapped=True)

    def __mod__(self, other: Operand) -> Var:
        return _infix("%", self, other)

    def __rmod__(self, other: Operand) -> Var:
        return _infix("%", self, other, swapped=True)

    def __and__(self, other: Operand) -> Var:
        return _infix("&", self, other)

    def __rand__(self, other: Operand) -> Var:
        return _infix("&", self, other, swapped=True)

    def __or__(self, other: Operand) -> Var:
        return _infix("|", self, other)

    def __ror__(self, other: Operand) -> Var:
        return _infix("|", self, other, swapped=True)

    def __xor__(self, other: Operand) -> Var:
        return _infix("^", self, other)

    def __rxor__(self, other: Operand) -> Var:
        return _infix("^", self, other, swapped=True)

    def __lshift__(self, other: Operand) -> Var:
        return _infix("<<", self, other)

    def __rlshift__(self, other: Operand) -> Var:
        return _infix("<<", self, other, swapped=True)

    def __rshift__(self, other: Operand) -> Var:
        return _infix(">>", self, other)

    def __rrshift__(self, other: Operand) -> Var:
        return _infix(">>", self, other, swapped=True)

    def __matmul__(self, other: Operand) -> Var:
        return _infix("@", self, other)

    def __rmatmul__(self, other: Operand) -> Var:
        return _infix("@", self, other, swapped=True)

    def __pow__(self, other: Operand) -> Var:
        if not isinstance(other, (int, float, np.number, Var)):
            return NotImplemented
        # A number stays one: whole powers of integers are products.
        return _apply("**", self, other.item() if isinstance(other, np.number) else other)

    def __rpow__(self, other: Operand) -> Var:
        return _infix("**", self, other, swapped=True)

    def __gt__(self, other: Operand) -> Var:
        return _infix(">", self, other)

    def __ge__(self, other: Operand) -> Var:
        return _infix(">=", self, other)

    def __lt__(self, other: Operand) -> Var:
        return _infix("<", self, other)

    def __le__(self, other: Operand) -> Var:
        return _infix("<=", self, other)

    def __eq__(self, other: Operand) -> Var:  # type: ignore[override]
        return _infix("==", self, other)

    def __ne__(self, other: Operand) -> Var:  # type: ignore[override]
        return _infix("!=", self, other)


def _apply(symbol: str, *operands: Any) -> Var:
    result: Var = SYMBOLS[symbol](*operands)
    return result


def _infix(symbol: str, x: Var, y: Any, swapped: bool = False) -> Var:
    if isinstance(y, (int, float, np.number)):
        # In the construction in progress: the body of a loop may read a variable from around it.
        builder = BUILDER.get(x.builder)
        (y,) = builder.apply(Constant(x.type, y.item() if isinstance(y, np.number) else y), ())
    elif isinstance(y, np.ndarray):
        raise not_variables(symbol, (y,))
    elif isinstance(y, Dim):
        raise ShapeError(
            f"the operands of {symbol} must be variables or numbers",
            f"one is the size {y}",
            "read it at run time: broadcast(number_of(size, x.dtype), x.shape)",
        )
    elif not isinstance(y, Var):
        return cast(Var, NotImplemented)
    return _apply(symbol, *((y, x) if swapped else (x, y)))
