"""Operations on the bits of integers, in two's complement."""

from __future__ import annotations

import numpy as np

from catgrad.ops.compare import not_equal
from catgrad.ops.logic import And, Not, Or
from catgrad.ops.scalar import Flat
from catgrad.ops.whole import IntegerMap
from catgrad.terms.op import SYMBOLS
from catgrad.terms.structural import Constant
from catgrad.terms.var import Var
from catgrad.types import Dtype

__all__ = ["bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "shift_left", "shift_right"]


class BitMap(IntegerMap, register=False):
    """(T, …) -> T for integer T, bit by bit."""

    remedy = "cast them to an integer dtype or bool"


class BitAnd(Flat, BitMap):
    """The bits set in both: z = x ∧ y, for integer T.

    Type:     (T, T) -> T
    Gradient: 0
    """

    result = "both"
    commutative = True
    ref = np.bitwise_and


class BitOr(BitMap):
    """The bits set in one or both: z = x ∨ y = x + y - (x ∧ y), for integer T.

    Type:     (T, T) -> T
    Gradient: dx = dz, dy = dz
    """

    result = "either"
    commutative = True
    left_unit = right_unit = 0
    ref = np.bitwise_or

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
    ref = np.bitwise_xor

    def body(self, x: Var, y: Var) -> Var:
        return x + y - 2 * BitAnd()(x, y)


class BitNot(BitMap):
    """The bits not set: y = ¬x = -x - 1, for integer T.

    Type:     (T) -> T
    Gradient: dx = -dy
    """

    result = "opposite"
    involution = True
    ref = np.bitwise_not

    def body(self, x: Var) -> Var:
        return -x - Constant(x.type, 1)()


class ShiftLeft(Flat, BitMap, symbol="<<"):
    """Bits moved up: z = x · 2ʸ modulo the range of T, for integer T.

    Type:     (T, T) -> T
    Domain:   0 where y is negative or at least the number of bits
    Gradient: 0
    """

    result = "shifted"
    right_unit = 0
    ref = np.left_shift


class ShiftRight(Flat, BitMap, symbol=">>"):
    """Bits moved down: z = ⌊x / 2ʸ⌋, for integer T.

    Type:     (T, T) -> T
    Domain:   0, or -1 for a negative x, where y is negative or at least the number of bits
    Gradient: 0
    """

    result = "shifted"
    right_unit = 0
    ref = np.right_shift


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
