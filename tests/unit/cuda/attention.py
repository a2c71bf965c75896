"""Run attention and its reverse, emitted for the simulator: a program that sanitizers watch."""

from __future__ import annotations

import sys

import numpy as np

from catgrad import Dtype, NdArrayType
from catgrad.functors import reverse
from catgrad.ops.attention import Attention
from catgrad.programs.program import evaluate
from catgrad.targets import get_backend
from catgrad.terms.term import singleton
from catgrad.testing import draw_arrays, run_on
from catgrad.types import widened

SHAPES = ((2, 21, 20), (2, 37, 20), (2, 37, 17))
OF_WARPGROUPS = ((130, 64),) * 3
"""Heads that warp groups compute, and the reverse, in two blocks."""


def main() -> None:
    """Compare a call with the reference, of the kind of cores that a dtype has."""
    dtype = Dtype[sys.argv[1]]
    tolerance = {Dtype.float32: 1e-5, Dtype.float16: 2e-2, Dtype.bfloat16: 5e-2}[dtype]
    shapes = OF_WARPGROUPS if dtype is Dtype.bfloat16 else SHAPES
    term = reverse(singleton(Attention(True), *(NdArrayType(shape, dtype) for shape in shapes)))
    arrays = draw_arrays(tuple(term.source.table), (-2.0, 2.0), 0)
    found = run_on(get_backend("cuda"), term, *arrays)
    for x, y in zip(found, evaluate(term, *arrays), strict=True):
        np.testing.assert_allclose(widened(x), widened(y), rtol=10 * tolerance, atol=tolerance)


if __name__ == "__main__":
    main()
