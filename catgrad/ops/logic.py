"""Boolean operations: connectives, element by element, and quantifiers over axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from catgrad.errors import DtypeError
from catgrad.ops.compare import select
from catgrad.ops.reduce import Sum, sum
from catgrad.ops.shape import Axes, Shape, normalised, require_shape, without
from catgrad.terms.op import NOTHING, Examples, Op, Types, same
from catgrad.terms.structural import Constant
from catgrad.terms.var import Var
from catgrad.types import Array, Dtype, NdArrayType

__all__ = ["all", "any", "logical_and", "logical_not", "logical_or"]


class Connective(Op, register=False):
    """(bool, …) -> bool, element by element."""

    saves = NOTHING
    elementwise = True

    def type(self, *types: NdArrayType) -> Types:
        return truth(*types)

    @classmethod
    def examples(cls) -> Examples:
        shapes: list[Shape] = [(2, 3), (), (0, 2)]
        return [(cls(), (NdArrayType(shape, Dtype.bool),) * cls.arity()) for shape in shapes]


class And(Connective):
    """Conjunction x ∧ y: (bool, bool) -> bool."""

    result = "both"
    commutative = True
    left_unit = right_unit = True
    ref = np.logical_and


class Or(Connective):
    """Disjunction x ∨ y: (bool, bool) -> bool."""

    result = "either"
    commutative = True
    left_unit = right_unit = False
    ref = np.logical_or


class Not(Connective):
    """Negation ¬x: (bool) -> bool."""

    result = "opposite"
    involution = True
    ref = np.logical_not


class Quantifier(Op, register=False):
    """bool[shape] -> bool[shape without axes]."""

    shape: Shape
    axes: Axes
    saves = NOTHING

    def type(self, x: NdArrayType) -> Types:
        require_shape(truth(x), self.shape)
        return x.with_shape(without(self.shape, self.axes))

    def is_identity(self, *inputs: NdArrayType) -> bool:
        return not self.axes

    @classmethod
    def examples(cls) -> Examples:
        return [
            (cls(op.shape, op.axes), (NdArrayType(op.shape, Dtype.bool),))
            for op, _ in Sum.examples()
            if isinstance(op, Sum)
        ]


class Exists(Quantifier):
    """Existential quantifier: y = ∃ x over the axes; false for no elements.

    Type:     bool[shape] -> bool[shape without axes]
    Raises:   ShapeError, OptionError
    """

    result = "any_holds"

    def ref(self, x: Array) -> Any:
        return np.any(x, axis=self.axes)

    def body(self, x: Var) -> Var:
        type = NdArrayType(self.shape, Dtype.int64)
        return sum(select(x, Constant(type, 1)(), Constant(type, 0)()), self.axes) > 0


class ForAll(Quantifier):
    """Universal quantifier: y = ∀ x over the axes; true for no elements.

    Type:     bool[shape] -> bool[shape without axes]
    Raises:   ShapeError, OptionError
    """

    result = "all_hold"

    def ref(self, x: Array) -> Any:
        return np.all(x, axis=self.axes)

    def body(self, x: Var) -> Var:
        return ~Exists(self.shape, self.axes)(~x)


logical_and, logical_or, logical_not = And(), Or(), Not()


def any(x: Var, axes: int | Sequence[int] | None = None) -> Var:
    """Return whether any element holds over `axes`, by default over all."""
    return Exists(x.shape, normalised(axes, x.type.rank))(x)


def all(x: Var, axes: int | Sequence[int] | None = None) -> Var:
    """Return whether all elements hold over `axes`, by default over all."""
    return ForAll(x.shape, normalised(axes, x.type.rank))(x)


def truth(*types: NdArrayType) -> NdArrayType:
    """Return the one type of booleans that all of `types` are. Raises: ShapeError, DtypeError."""
    first = same(*types)
    if first.dtype is not Dtype.bool:
        raise DtypeError(
            "operands must be bool", f"they are {first}", "compare them to something, as in x > 0"
        )
    return first
