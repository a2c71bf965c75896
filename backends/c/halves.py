"""Numbers of 16 bits, which C stores as their bits and computes with as floats."""

from __future__ import annotations

import numpy as np

from catgrad.terms.structural import Constant
from catgrad.types import Dtype, NdArrayType

HALVES = (Dtype.float16, Dtype.bfloat16)


def widened(constant: Constant) -> Constant:
    """A number of 16 bits as the float it is: the digits that suffice there mean another one here."""
    if constant.array_type.dtype not in HALVES:
        return constant
    return Constant(NdArrayType(constant.array_type.shape, Dtype.float32), constant.value)


def stored(digits: str, dtype: Dtype) -> str:
    """The digits of an element as it is stored."""
    if dtype not in HALVES:
        return digits
    return hex(int(np.array(float(digits), dtype.numpy).view(np.uint16)))
