"""Elementwise operations: base classes of maps of scalars, which preserve the type."""

from __future__ import annotations

from catgrad.terms.op import INPUTS, NOTHING, Examples, Op, Types, floating, numeric
from catgrad.terms.structural import zeros_like
from catgrad.terms.var import Var
from catgrad.types import NdArrayType


class ScalarMap(Op, register=False):
    """(T, …) -> T for numeric T, element by element."""

    elementwise = True

    def type(self, *types: NdArrayType) -> Types:
        return numeric(*types)


class Flat(Op, register=False):
    """A function whose gradient is 0, as that of a step."""

    saves = NOTHING

    def rev(self, dz: Var) -> tuple[Var, ...]:
        return tuple(zeros_like(dz) for _ in range(self.arity()))


class FloatMap(Op, register=False):
    """(T, …) -> T for floating T, element by element."""

    elementwise = True

    def type(self, *types: NdArrayType) -> Types:
        return floating(*types)


class SpecialMap(FloatMap, register=False):
    """(T, …) -> T for floating T, element by element: a long definition, of which tests use one shape."""

    saves = INPUTS
    costly = True

    @classmethod
    def examples(cls) -> Examples:
        return [(cls(), (NdArrayType((2, 3)),) * cls.arity())]
