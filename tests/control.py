"""Types, comparisons and emitted texts for tests of loops and branches."""

from __future__ import annotations

import numpy as np

from catgrad import Dim, Dtype, NdArrayType, ops
from catgrad.functors import Expand
from catgrad.programs.program import Program, lower
from catgrad.targets import get_backend

BOOL, F64 = NdArrayType((), Dtype.bool), Dtype.float64
T = Dim("time")


def f64(*shape):
    return NdArrayType(shape, F64)


def close(xs, ys, tolerance=1e-9):
    for x, y in zip(xs, ys, strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=tolerance, atol=tolerance)


def several(h, n, b, xs):
    """Build a loop that carries a float, an integer and a boolean, and captures variables."""
    w = ops.tanh(h)

    def turn(carry, x):
        h, n, b = carry
        h = ops.select(ops.broadcast(b, (3,)), h * w + x, h - x * ops.broadcast(ops.cast(n, F64), (3,)))
        return (h, n + 2, ops.sum(h) > 0), (h, n, b)

    (h, n, b), rows = ops.scan(turn, (h, n, b), xs)
    return h, n, b, *rows


def source_of(term, target="numpy"):
    function = lower(Expand(get_backend(target).has)(term), "f")
    text = get_backend(target).emit(Program("p", (function,))).source
    return text[text.index("def f(") : text.index("def converted")]
