"""Stacks whose rows are arrays of their own: the entries of a table, which loops read where they lie."""

from __future__ import annotations

import numpy as np

from catgrad.errors import ShapeError
from catgrad.naming import shared_name
from catgrad.ops.shape import Reshape, require_shape
from catgrad.ops.slices import Slice, stack
from catgrad.terms.op import NOTHING, Examples, Op, Types, same
from catgrad.terms.var import Var
from catgrad.types import Array, NdArrayType


class Stack(Op):
    """The stack of several arrays along a new first axis: yₜ = xₜ. Loops over its rows need no copy.

    Type:     (T[shape], …) -> T[count, shape], for `count` arrays
    Gradient: dxₜ is row t of dy
    """

    count: int
    saves = NOTHING

    def type(self, *xs: NdArrayType) -> Types:
        if len(xs) != self.count or not xs:
            raise ShapeError(f"there must be {self.count} rows", f"there are {len(xs)}", "give one for each")
        return same(*xs).with_shape((self.count, *xs[0].shape))

    def ref(self, *xs: Array) -> Array:
        return np.stack(xs)

    def body(self, *xs: Var) -> Var:
        return stack(xs)

    def rev(self, dy: Var) -> Var:
        return Unstack(self.count)(dy)

    def result_name(self, *operands: str) -> str:
        return shared_name(operands) if all(operands) else "stack"

    @classmethod
    def examples(cls) -> Examples:
        return [(cls(3), (NdArrayType((2, 2)),) * 3), (cls(1), (NdArrayType(()),))]


class Unstack(Op):
    """The rows of an array: yₜ = xₜ.

    Type:     T[count, shape] -> (T[shape], …)
    Gradient: dx is the stack of all dyₜ
    """

    count: int
    saves = NOTHING

    def type(self, x: NdArrayType) -> Types:
        require_shape(x, (self.count, *x.shape[1:]))
        return (x.with_shape(x.shape[1:]),) * self.count

    def ref(self, x: Array) -> tuple[Array, ...]:
        return tuple(x)

    def body(self, x: Var) -> list[Var]:
        rest = x.shape[1:]
        rows = (Slice(x.shape, (t, *(0 for _ in rest)), (1, *rest))(x) for t in range(self.count))
        return [Reshape((1, *rest), rest)(row) for row in rows]

    def rev(self, *dys: Var) -> Var:
        return Stack(self.count)(*dys)

    @classmethod
    def examples(cls) -> Examples:
        return [(cls(3), (NdArrayType((3, 2)),)), (cls(1), (NdArrayType((1,)),))]
