"""Numbers of 16 bits, which C stores as their bit patterns and computes with as floats."""

from __future__ import annotations

import numpy as np

from catgrad.types import Dtype

HALVES = (Dtype.float16, Dtype.bfloat16)


def stored(digits: str, dtype: Dtype) -> str:
    """The digits of an element as it is stored."""
    if dtype not in HALVES:
        return digits
    return hex(int(np.array(float(digits), dtype.numpy).view(np.uint16)))
