"""Elementwise operations: base classes of maps of scalars, which preserve the type."""

from __future__ import annotations

from catgrad.terms.op import INPUTS, Examples, Op, Types, floating, numeric
from catgrad.types import NdArrayType


class ScalarMap(Op, register=False):
    """(T, …) -> T for numeric T, element by element."""

    elementwise = True

    def type(self, *types: NdArrayType) -> Types:
        return numeric(*types)


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
