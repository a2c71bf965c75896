"""Operations on the bits of integers, in two's complement."""

from __future__ import annotations

import numpy as np

from catgrad.ops.compare import not_equal
from catgrad.ops.logic import And, Not, Or
from catgrad.ops.whole import IntegerMap
from catgrad.terms.op import NOTHING, SYMBOLS
from catgrad.terms.structural import Constant, zeros_like
from catgrad.terms.var import Var
from catgrad.types import Array, Dtype

__all__ = ["bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "shift_left", "shift_right"]


class BitMap(IntegerMap, register=False):
    """(T, …) -> T for integer T, bit by bit."""

    remedy = "cast them to an integer dtype or bool"


class Flat(BitMap, register=False):
    """(T, T) -> T, with the gradient 0."""

    saves = NOTHING

    def rev(self, dz: Var) -> tuple[Var, Var]:
        return zeros_like(dz), zeros_like(dz)


class BitAnd(Flat):
    """The bits set in both: z = x ∧ y, for integer T.

    Type:     (T, T) -> T
    Gradient: 0
    """

    result = "both"
    commutative = True

    def ref(self, x: Array, y: Array) -> Array:
        return x & y


class BitOr(BitMap):
    """The bits set in one or both: z = x ∨ y = x + y - (x ∧ y), for integer T.

    Type:     (T, T) -> T
    Gradient: dx = dz, dy = dz
    """

    result = "either"
    commutative = True
    left_unit = right_unit = 0

    def ref(self, x: Array, y: Array) -> Array:
        return x | y

    def body(self, x: Var, y: Var) -> Var:
        return x + y - BitAnd()(x, y)


class BitXor(BitMap):
    """The bits set in one of the two: z = x ⊕ y = x + y - 2 (x ∧ y), for integer T.

    Type:     (T, T) -> T
    Gradient: dx = dz, dy = dz
    """

    result = "difference"
    commutative = True
    left_unit = right_unit = 0

    def ref(self, x: Array, y: Array) -> Array:
        return x ^ y

    def body(self, x: Var, y: Var) -> Var:
        return x + y - 2 * BitAnd()(x, y)


class BitNot(BitMap):
    """The bits not set: y = ¬x = -x - 1, for integer T.

    Type:     (T) -> T
    Gradient: dx = -dy
    """

    result = "opposite"
    involution = True

    def ref(self, x: Array) -> Array:
        return ~x

    def body(self, x: Var) -> Var:
        return -x - Constant(x.type, 1)()


class ShiftLeft(Flat, symbol="<<"):
    """Bits moved up: z = x · 2ʸ modulo the range of T, for integer T.

    Type:     (T, T) -> T
    Domain:   0 where y is negative or at least the number of bits
    Gradient: 0
    """

    result = "shifted"
    right_unit = 0

    def ref(self, x: Array, y: Array) -> Array:
        return np.left_shift(x, y)


class ShiftRight(Flat, symbol=">>"):
    """Bits moved down: z = ⌊x / 2ʸ⌋, for integer T.

    Type:     (T, T) -> T
    Domain:   0, or -1 for a negative x, where y is negative or at least the number of bits
    Gradient: 0
    """

    result = "shifted"
    right_unit = 0

    def ref(self, x: Array, y: Array) -> Array:
        return np.right_shift(x, y)


shift_left, shift_right = ShiftLeft(), ShiftRight()


def bitwise_and(x: Var, y: Var) -> Var:
    """Return the bits set in both, or the conjunction of booleans."""
    return And()(x, y) if x.dtype is Dtype.bool else BitAnd()(x, y)


def bitwise_or(x: Var, y: Var) -> Var:
    """Return the bits set in one or both, or the disjunction of booleans."""
    return Or()(x, y) if x.dtype is Dtype.bool else BitOr()(x, y)


def bitwise_xor(x: Var, y: Var) -> Var:
    """Return the bits set in one of the two; of booleans, whether they differ."""
    return not_equal(x, y) if x.dtype is Dtype.bool else BitXor()(x, y)


def bitwise_not(x: Var) -> Var:
    """Return the bits not set, or the negation of booleans."""
    return Not()(x) if x.dtype is Dtype.bool else BitNot()(x)


SYMBOLS |= {"&": bitwise_and, "|": bitwise_or, "^": bitwise_xor, "~": bitwise_not}
