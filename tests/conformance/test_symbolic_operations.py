"""Functions of `catgrad.ops` with symbolic sizes have the numbers of fixed ones, or an error says why not."""

from __future__ import annotations

import numpy as np
import pytest

from catgrad import Dim, Dtype, NdArrayType, build, ops
from catgrad.errors import CatgradError
from catgrad.functors import Expand, reverse
from catgrad.programs.program import evaluate, lower, requirements
from catgrad.testing import draw_arrays

F64, I64, BOOL = Dtype.float64, Dtype.int64, Dtype.bool

CALLS = {
    **{name: (getattr(ops, name), (3, 4)) for name in (
        "cummax", "cummin", "cumprod", "cumsum", "logcumsumexp", "logsumexp", "log_softmax", "softmax",
        "sort", "argsort", "argmax", "argmin", "max", "min", "mean", "sum", "prod", "flip", "lower", "upper",
        "square", "transpose", "rms_norm", "diagonal_matrix",
    )},
    **{f"{name} along the first axis": (lambda x, f=getattr(ops, name): f(x, 0), (3, 4)) for name in (
        "cummax", "cummin", "cumprod", "cumsum", "logcumsumexp", "logsumexp", "softmax", "sort", "argmax",
        "max", "mean", "sum", "prod", "flip",
    )},
    "diagonal": (ops.diagonal, (3, 3)),
    "diagonal above": (lambda x: ops.diagonal(x, 1), (2, 4, 4)),
    "diagonal of a rectangle": (ops.diagonal, (3, 4)),
    "diagonal_matrix below": (lambda x: ops.diagonal_matrix(x, -2), (2, 3)),
    "with_diagonal": (lambda x, y: ops.with_diagonal(x, y), (3, 3), (3,)),
    "slice": (lambda x: ops.slice(x, [1, 0], [x.shape[0] - 1, 2]), (3, 4)),
    "slice of the end": (lambda x: ops.slice(x, [0, x.shape[1] - 1], [x.shape[0], 1]), (3, 4)),
    "pad": (lambda x: ops.pad(x, [(1, 2), (0, 3)]), (3, 4)),
    "pad by a size": (lambda x: ops.pad(x, [(0, x.shape[1]), (x.shape[0], 0)]), (3, 4)),
    "concat": (lambda x, y: ops.concat([x, y, x]), (3, 4), (5, 4)),
    "split": (lambda x: ops.split(x, [x.shape[0] - 1, 1]), (3, 4)),
    "stack": (lambda x, y: ops.stack([x, y], 1), (3, 4), (3, 4)),
    "top_k": (lambda x: ops.top_k(x, 1, 0), (3, 4)),
    "put": (ops.put, (3, 4), (2, I64), (2, 4)),
    "put_along_axis": (lambda x, i, y: ops.put_along_axis(x, i, y, 1), (3, 4), (3, 2, I64), (3, 2)),
    "take": (lambda x, i: ops.take(x, i, 1), (3, 4), (2, 5, I64)),
    "gather": (ops.gather, (3, 4), (2, I64)),
    "take_along_axis": (ops.take_along_axis, (3, 4), (3, 2, I64)),
    "scatter_add": (lambda x, i: ops.scatter_add(x, i, 7), (3, 4), (3, I64)),
    "any": (ops.any, (3, 4, BOOL)), "all": (lambda x: ops.all(x, 0), (3, 4, BOOL)),
    "matmul": (ops.matmul, (2, 3, 4), (2, 4, 5)),
    "attention": (ops.attention, (2, 3, 4), (2, 5, 4), (2, 5, 4)),
    "attention of lengths": (
        lambda q, k, v, n: ops.attention(q, k, v, lengths=n), (2, 3, 4), (2, 5, 4), (2, 5, 4), (2, I64),
    ),
    "sequence_mask": (lambda x, n: ops.select(ops.sequence_mask(n, x.shape[1]), x, -x), (3, 4), (3, I64)),
    "layer_norm": (ops.layer_norm, (3, 4)), "group_norm": (lambda x: ops.group_norm(x, 2), (2, 4, 3)),
    "batch_norm": (ops.batch_norm, (2, 3), (3,), (3,)),
    "conv": (lambda x, w: ops.conv(x, w), (7, 3, 5), (4, 3, 2)),
    "max_pool": (lambda x: ops.max_pool(x, 2), (2, 3, 4)),
    "avg_pool": (lambda x: ops.avg_pool(x, 2), (2, 3, 4)),
    "adaptive_avg_pool": (lambda x: ops.adaptive_avg_pool(x, (2,)), (2, 3, 5)),
    "adaptive_max_pool": (lambda x: ops.adaptive_max_pool(x, (2,)), (2, 3, 5)),
    "global_avg_pool": (ops.global_avg_pool, (2, 3, 4)),
    "upsample_nearest": (lambda x: ops.upsample_nearest(x, 2), (2, 3, 4)),
    "window": (lambda x: ops.window(x, (1,), (2,), (1,), (1,)), (3, 4)),
    "solve": (ops.solve, (3, 3), (3, 2)), "inverse": (ops.inverse, (2, 3, 3)),
    "determinant": (ops.determinant, (2, 3, 3)), "cholesky": (ops.cholesky, (3, 3)),
    "rotary": (ops.rotary, (2, 3, 4)),
    "scan": (lambda x: ops.scan(lambda c, r: (c + r, c * r), ops.zeros_like(ops.sum(x, 0)), x), (3, 4)),
    "size over an array": (lambda x: x / x.shape[0], (3, 4)),
    "size compared with an array": (lambda x: x.shape[0] < x, (3, 4)),
    "half a size": (lambda x: x * (x.shape[0] / 2), (3, 4)),
    "greater size": (lambda x: x * max(x.shape[0], 2), (3, 4)),
    "loop over a size": (lambda x: [ops.sum(x) for _ in range(x.shape[0])], (3, 4)),
}  # fmt: skip
"""Functions, and the shapes of their arrays, of which one is free."""


def types_of(shapes, size, number):
    """Return types with a size in the place of a number."""
    types = []
    for *shape, last in shapes:
        sizes, dtype = ((*shape, last), F64) if isinstance(last, int) else (tuple(shape), last)
        types.append(NdArrayType(tuple(size if n == number else n for n in sizes), dtype))
    return types


REFUSED = {
    "diagonal of a rectangle": (3, 4), "attention": (4,), "attention of lengths": (4,), "group_norm": (4,),
    "conv": (2, 3, 4, 5),
    "max_pool": (4,), "avg_pool": (4,), "adaptive_avg_pool": (5,), "adaptive_max_pool": (5,), "window": (4,),
    "solve": (3,), "inverse": (3,), "determinant": (3,), "cholesky": (3,), "rotary": (4,),
    "size over an array": (3,), "size compared with an array": (3,), "half a size": (3,),
    "greater size": (3,), "loop over a size": (3,),
}  # fmt: skip
"""The sizes that are refused if they are free, by call."""


@pytest.mark.parametrize("name", CALLS)
def test_results_are_those_at_fixed_sizes_or_an_error_says_why(name):
    function, *shapes = CALLS[name]
    refused = []
    for number in sorted({n for shape in shapes for n in shape if isinstance(n, int)}):
        try:
            free = build(function, types_of(shapes, Dim("n"), number))
        except CatgradError:
            refused.append(number)
            continue
        for count in (1, number, number + 2):
            check(function, free, types_of(shapes, count, number))
    assert tuple(refused) == REFUSED.get(name, ())


def check(function, free, types):
    """Compare values and gradients of a term with free sizes with those of the function at fixed sizes."""
    arrays = draw_arrays(types, (0.5, 1.5), 0, 1)
    try:
        fixed = build(function, types)
    except CatgradError:
        if not requirements(
            lower(free, "f", doc="The term under test.")
        ):  # programs check these when they run
            with pytest.raises(CatgradError, match="must be at least"):
                evaluate(Expand()(free), *arrays)
        return
    cotangents = draw_arrays(tuple(reverse(fixed).source.table)[len(types) :], (0.5, 1.5), 1)
    for wanted, found, given in (
        (fixed, free, arrays),
        (reverse(fixed), reverse(free), [*arrays, *cotangents]),
    ):
        results = zip(evaluate(Expand()(found), *given), evaluate(wanted, *given), strict=True)
        for x, y in results:
            np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)
