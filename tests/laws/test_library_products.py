"""Products that a library computes, and nests that are fused with them, keep the meaning of programs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catgrad import Dim, Dtype, NdArrayType, build, ops
from catgrad.loops.ir.scalar import Load
from catgrad.loops.ir.steps import Epilogue, If, Product, every_step, kernels
from catgrad.ops.contract import Contract
from catgrad.programs.program import evaluate
from tests.gpu import run_in_teams
from tests.laws.test_gpu_schedules import ANY, scheduled

SIDES = {
    "left": ("rows", "batch", "sums"),
    "right": ("columns", "batch", "sums"),
    "out": ("rows", "columns", "batch"),
}


@st.composite
def contractions(draw):
    """Draw a contraction of two arrays, with axes in any order."""
    roles = draw(st.lists(st.sampled_from(["rows", "columns", "batch", "sums"]), min_size=3, max_size=5))
    of = {name: [label for label, role in enumerate(roles) if role in each] for name, each in SIDES.items()}
    left, right, out = (tuple(draw(st.permutations(of[name]))) for name in SIDES)
    sizes = [draw(st.integers(1, 3)) for _ in roles]
    dtype = draw(st.sampled_from([Dtype.float16, Dtype.float32, Dtype.float64]))
    return Contract(left, right, out), *(
        NdArrayType(tuple(sizes[label] for label in labels), dtype) for labels in (left, right, out)
    )


def calls(steps):
    """List the products that a library computes."""
    return [step for step in every_step(steps) if isinstance(step, Product)]


ENDS = ("relu", "array", "row", "tanh", "turn")
"""Operations that may follow a product, of which the library computes some."""


def finished(x, ends, extra):
    """Apply operations to a product in order, with arrays and rows to add."""
    for end in ends:
        if end in ("array", "row"):
            other = next(extra)
            x = x + (other if end == "array" else ops.broadcast(other, x.type.shape))
        else:
            x = {"relu": ops.relu, "tanh": ops.tanh, "turn": lambda x: ops.flip(x, 0)}[end](x)
    return x


@ANY
@given(drawn=contractions(), ends=st.lists(st.sampled_from(ENDS), max_size=4), seed=st.integers(0, 9))
def test_products_of_a_library(drawn, ends, seed):
    """Products have matrices whose rows or columns are contiguous, and the results of their terms."""
    op, left, right, out = drawn
    ends = [end for end in ends if out.shape or end not in ("row", "turn")]
    rows = NdArrayType(out.shape[-1:], out.dtype)
    extra = [out if end == "array" else rows for end in ends if end in ("array", "row")]
    term = build(lambda x, y, *more: finished(op(x, y), ends, iter(more)), [left, right, *extra])
    lowered = scheduled(term, "library")
    for step in calls(lowered.steps):
        assert len(step.batch) <= 1 and not step.sums
        assert_regular(step)
    rng = np.random.default_rng(seed)
    arrays = [rng.integers(-4, 5, t.shape).astype(t.dtype.numpy) for t in (left, right, *extra)]
    [found] = run_in_teams(lowered, *arrays)
    np.testing.assert_allclose(
        found, evaluate(term, *arrays)[0], rtol=1e-3 if out.dtype is Dtype.float16 else 1e-6
    )


def assert_regular(step):
    """Assert that strides are those of matrices that store rows or columns without overlap."""
    s, end = step.matmul, step.epilogue
    [m], [n], [k] = s.rows, s.columns, s.depth
    matrices = [(s.left, m, k), (s.right, k, n), (Load(s.buffer, s.indices), m, n)]
    matrices += [(end.addend, m, n)] if end.addend else []
    for load, rows, columns in matrices:
        place = load.buffer.flat(load.indices)
        near = [v for v in (rows, columns) if place.coefficient(v) == 1]
        assert any(place.coefficient(rows if v is columns else columns) >= v.extent for v in near)
    for load in (Load(s.buffer, s.indices), *end.loads):
        assert load.buffer.flat(load.indices).coefficient(n) == 1
    if end.bias:
        assert end.bias.buffer.flat(end.bias.indices).coefficient(m) == 0


N = Dim("n")
X, W, ROW, OUT = (NdArrayType(shape) for shape in ((N, 8), (8, 16), (16,), (N, 16)))


def epilogues(function, *types):
    """Compile a function, and return what follows each of its products, and the number of its kernels."""
    lowered = scheduled(build(function, types), "library")
    return [step.epilogue for step in calls(lowered.steps)], len(kernels(lowered.steps))


def in_words(end):
    words = ("addend", end.addend), ("bias", end.bias), ("relu", end.relu)
    return " ".join(word for word, is_there in words if is_there)


def row(b):
    return ops.broadcast(b, (N, 16))


FUSED = {
    "bias": lambda x, w, b, y: x @ w + row(b),
    "bias relu": lambda x, w, b, y: ops.relu(row(b) + x @ w),
    "relu": lambda x, w, b, y: ops.maximum(ops.zeros_like(y), x @ w),
    "addend": lambda x, w, b, y: y + x @ w,
    "addend bias relu": lambda x, w, b, y: ops.relu((x @ w + row(b)) + y),
}


@pytest.mark.parametrize("words", FUSED)
@pytest.mark.parametrize("dtype", [Dtype.float16, Dtype.bfloat16, Dtype.float32, Dtype.float64])
def test_operations_of_the_library_need_no_kernel(words, dtype):
    [end], count = epilogues(FUSED[words], *(NdArrayType(t.shape, dtype) for t in (X, W, ROW, OUT)))
    assert (in_words(end), count) == (words, 0)


def test_a_bias_is_added_to_sums_of_no_terms_too():
    [end], count = epilogues(
        lambda x, w, b, y: ops.transpose(x) @ y + ops.broadcast(b, (8, 16)), X, W, ROW, OUT
    )
    assert (in_words(end), count) == ("bias", 0)


APART = {
    "another function": lambda x, w, b, y: ops.tanh(x @ w + row(b)),
    "two rows": lambda x, w, b, y: x @ w + row(b) + row(b),
    "two arrays": lambda x, w, b, y: x @ w + y + y,
    "a sum after relu": lambda x, w, b, y: ops.relu(x @ w) + row(b),
    "a column": lambda x, w, b, y: x @ w + ops.broadcast(ops.sum(x, 1), (N, 16), 1),
    "a number": lambda x, w, b, y: x @ w + 1,
    "the product twice": lambda x, w, b, y: x @ w + ops.flip(x @ w, 0),
    "another maximum": lambda x, w, b, y: ops.maximum(x @ w, ops.zeros_like(y) + 2),
}


@pytest.mark.parametrize("name", APART)
def test_other_operations_are_kernels(name):
    ends, count = epilogues(APART[name], X, W, ROW, OUT)
    assert ends == [Epilogue()] and count > 0


def test_a_loop_whose_carries_are_factors():
    """A product that waits for the nest that finishes it reads the carries of its own iteration."""
    square, rows = NdArrayType((8, 8)), NdArrayType((3, N, 8))

    def looped(p, q, w, xs):
        def body(carry, x):
            a, b = carry
            return (ops.relu(b @ w + x), a + b @ ops.transpose(w)), b

        return ops.scan(body, (p, q), xs)

    term = build(lambda *v: [*(r := looped(*v))[0], r[1]], [X, X, square, rows])
    lowered = scheduled(term, "library")
    assert any(step.epilogue.loads for step in calls(lowered.steps))
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-2, 3, shape).astype(np.float32) for shape in ((5, 8), (5, 8), (8, 8), (3, 5, 8))]
    for found, wanted in zip(run_in_teams(lowered, *arrays), evaluate(term, *arrays), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_a_branch_that_is_not_taken_changes_nothing_outside():
    """Calls of a library run in both parts of a branch: neither writes what anything outside of it reads."""
    types = [NdArrayType((), Dtype.bool), X, W]

    def chosen(c, x, w):
        return ops.cond(c, lambda x, w: x @ w, lambda x, w: ops.relu(x @ w), x, w)

    lowered = scheduled(build(chosen, types), "library")
    [branch] = [step for step in every_step(lowered.steps) if isinstance(step, If)]
    first, second = ({b for s in calls(part) for b, _ in s.writes} for part in branch.parts)
    assert first and second and first.isdisjoint(second)
    outside = {b for step in lowered.steps if step is not branch for b, _ in (*step.reads, *step.writes)}
    assert (first | second).isdisjoint({*outside, *lowered.results})
