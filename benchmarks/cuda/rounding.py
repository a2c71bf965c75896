"""Rounding of float32 by tensor maps (TMA): numbers between two of TF32, times the unit matrix.

Emitted products by warp groups rely on copies that round to the nearest number of TF32.
"""

from __future__ import annotations

import numpy as np

from catgrad import Functions, NdArrayType, build, emit, ops
from catgrad.artifact import Artifact
from catgrad.types import Array

ROWS, SIDE = 16384, 128
"""Sizes of a product that warp groups compute, where a GPU has them."""

FIRST = np.float32(1).view(np.uint32)
"""The bits of the least number."""

LOST_BITS = 13
"""Bits of float32 that TF32 does not have."""


def rounding_artifact() -> Artifact:
    """Emit a product of a matrix by a square one."""
    types = [NdArrayType((ROWS, SIDE)), NdArrayType((SIDE, SIDE))]
    return emit(Functions({"product": build(ops.matmul, types)}, "rounding"), "cuda", math="tf32")


def rounding(**options: bool) -> str:
    """Say how factors of a product are rounded to TF32."""
    x = (np.arange(ROWS * SIDE, dtype=np.uint32) * 1021 % 2**24 + FIRST).reshape(ROWS, SIDE)
    product = (
        rounding_artifact().load(**options)().product(x.view(np.float32), np.eye(SIDE, dtype=np.float32))
    )
    found = np.asarray(product[0] if isinstance(product, (list, tuple)) else product).view(np.uint32)
    ways = {way: rounded for way, rounded in rounded_ways(x).items() if np.array_equal(found, rounded)}
    return next(iter(ways), "in no known way")


def rounded_ways(bits: Array) -> dict[str, Array]:
    """Round the bits of positive numbers of float32 to those of TF32, in several ways."""
    last = np.uint32(1 << LOST_BITS)
    half, mask = last >> 1, ~(last - 1)
    odd = bits >> LOST_BITS & 1
    return {
        "to nearest, ties to even": bits + half - 1 + odd & mask,
        "to nearest, ties away from zero": bits + half & mask,
        "toward zero": bits & mask,
        "not at all": bits,
    }
