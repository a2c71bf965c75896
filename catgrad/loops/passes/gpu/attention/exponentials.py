"""Exponentials of a softmax as powers of two: exp(scale · s − l) = 2^(c · s − l · log₂ e), c = scale log₂ e.

So a weight is a multiply-add, by which the scale costs nothing, and one instruction.
"""

from __future__ import annotations

from math import e, log2

import numpy as np

from catgrad.loops.ir.scalar import Compute, Scalar, number
from catgrad.ops.arithmetic import Multiply
from catgrad.ops.scalar import FloatMap, ScalarMap
from catgrad.terms.op import Op
from catgrad.types import Dtype

FLOAT = Dtype.float32
"""The dtype of scores, and of sums."""


def of_floats(op: Op, *operands: Scalar) -> Compute:
    """Compute an operation in the dtype of scores."""
    return Compute(op, FLOAT, operands)


class Exp2(FloatMap, register=False):
    """Power of two: y = 2ˣ; if it `is_approximate`, with an error of 2⁻²² · y, and 0 for denormal y."""

    is_approximate: bool
    ref = np.exp2


class MaximumNumber(ScalarMap, register=False):
    """The greater of two numbers: z = max(x, y), and the other if one is NaN, as one instruction computes it.

    A score that is NaN needs not be the greatest of its row: its exponential is NaN, and so are all sums.

    Source: IEEE 754-2019, section 9.6
    """

    ref = np.fmax


def to_base_2(exponent: Scalar, scale: float = 1) -> Compute:
    """Multiply an exponent by a scale, and to raise 2 rather than e to it."""
    return Compute(Multiply(), Dtype.float32, (exponent, number(scale * log2(e), Dtype.float32)))
