"""Loops, branches and recomputation equal their unrolling, forward and reverse, with minimal residuals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from catgrad import Dim, Dtype, NdArrayType, Task, build, layers, mse, ops, sgd
from catgrad.errors import CatgradError, DtypeError, OptionError, ShapeError, TypeMismatch
from catgrad.functors import Expand, reverse, reverse_derivative
from catgrad.ops.control import Checkpoint, Cond, Scan
from catgrad.programs.passes import erase_barriers, optimise
from catgrad.programs.program import evaluate, lower
from catgrad.targets import get_backend
from catgrad.terms.block import Block
from catgrad.terms.partition import split
from catgrad.terms.structural import Constant
from catgrad.terms.term import singleton
from catgrad.testing import check_derivative, draw_arrays, run_on
from tests.control import BOOL, T, close, f64, several, source_of
from tests.strategies import (
    COLUMN,
    FLOAT_STEPS,
    GRID,
    MATRIX,
    ROW,
    SCALAR,
    SQUARE,
    VECTOR,
    integer_terms,
    integers_for,
    random_terms,
)
from tests.targets import drawn, emit, on_targets, on_targets_with


def equal(xs, ys):
    return all(np.array_equal(x, y) and x.dtype == y.dtype for x, y in zip(xs, ys, strict=True))


def unrolled(op: Scan):
    """Unroll a loop."""

    def run(*arguments):
        carry, rows, constants = op.parts(arguments)
        results = []
        for t in reversed(range(op.length)) if op.backwards else range(op.length):
            elements = [
                ops.reshape(ops.slice(x, (t, *[0] * (x.type.rank - 1)), (1, *x.shape[1:])), *x.shape[1:])
                for x in rows
            ]
            values = op.block.term.apply(*carry, *elements, *constants)
            carry, ys = values[: op.carried], values[op.carried :]
            results.append(ys)
        if op.backwards:
            results.reverse()
        stacks = []
        for k, y in enumerate(op.block.outputs[op.carried :]):
            one = [ops.reshape(ys[k], 1, *y.shape) for ys in results]
            stacks.append(ops.concat(one) if one else Constant(y.with_shape((0, *y.shape)), 0)())
        return [*carry, *stacks]

    return run


@st.composite
def loops(draw, types, terms):
    """Draw a random loop with any carries, rows and constants, and the types of its operands."""
    kinds = st.lists(st.sampled_from(types), max_size=2)
    carry, rows, constants, ys = (draw(kinds) for _ in range(4))
    assume(carry or rows or constants)
    term = draw(terms([*carry, *rows, *constants], [*carry, *ys]))
    length, backwards = draw(st.integers(0, 3)), draw(st.booleans())
    inputs = [*carry, *(x.with_shape((length, *x.shape)) for x in rows), *constants]
    return Scan(Block(term), length, len(carry), len(rows), backwards), inputs


INTEGER_LOOPS = loops([VECTOR, MATRIX, SQUARE], lambda s, t: integer_terms(s, t, 5))
FLOAT_LOOPS = loops([SCALAR, ROW, COLUMN, GRID], lambda s, t: random_terms(FLOAT_STEPS, s, t, 4))


@given(INTEGER_LOOPS, st.integers(0, 99))
@settings(max_examples=60)
def test_a_loop_equals_its_unrolling(loop, seed):
    """Compare values and reverse over the integers modulo 2³², where every law is exact."""
    op, types = loop
    looped, straight = singleton(op, *types), build(unrolled(op), types)
    for f, g in ((looped, straight), (reverse(looped), reverse(straight))):
        arrays = integers_for(f, seed)
        assert equal(evaluate(f, *arrays), evaluate(g, *arrays))


@given(INTEGER_LOOPS, st.integers(0, 99))
@settings(max_examples=30)
def test_passes_preserve_the_meaning_of_loops(loop, seed):
    op, types = loop
    term = reverse(singleton(op, *types))
    arrays = integers_for(term, seed)
    function = lower(Expand()(term))
    assert equal(evaluate(optimise(function), *arrays), evaluate(function, *arrays))


@on_targets
@drawn(25, loop=FLOAT_LOOPS, data=st.data())
def test_targets_agree_with_unrolled_loops(target, loop, data):
    """Bodies are random terms, some of whose results are unused."""
    op, types = loop
    read = data.draw(st.lists(st.booleans(), min_size=9, max_size=9))

    def some(function):
        return lambda *a: [y for y, wanted in zip(function(*a), read, strict=False) if wanted]

    looped, straight = build(some(op.apply), types), build(some(unrolled(op)), types)
    for f, g in ((looped, straight), (reverse(looped), reverse(straight))):
        arrays = draw_arrays(tuple(f.source.table), (-1.0, 1.0))
        for a, b in zip(run_on(get_backend(target), f, *arrays), evaluate(g, *arrays), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


@st.composite
def branches(draw):
    types = draw(st.lists(st.sampled_from([VECTOR, MATRIX, SQUARE]), min_size=1, max_size=3))
    outputs = draw(st.lists(st.sampled_from([VECTOR, MATRIX, SQUARE]), max_size=2))
    return [draw(integer_terms(types, outputs, 5)) for _ in range(2)], types


@given(branches(), st.booleans(), st.integers(0, 99))
@settings(max_examples=40)
def test_a_cond_equals_the_selected_branch(both, taken, seed):
    """Compare values and reverse, for both values of the condition."""
    (then, otherwise), types = both
    branch = singleton(Cond(Block(then), Block(otherwise)), BOOL, *types)
    for change in (lambda f: f, reverse):
        wanted = change(then if taken else otherwise)
        arrays = integers_for(wanted, seed)
        assert equal(evaluate(change(branch), np.bool_(taken), *arrays), evaluate(wanted, *arrays))


@given(integer_terms(size=8), st.integers(0, 99))
@settings(max_examples=8)
def test_a_checkpoint_equals_its_term(term, seed):
    types = list(term.source.table)
    wrapped = singleton(Checkpoint(Block(term)), *types)
    for change in (lambda f: f, reverse, lambda f: reverse(reverse(f))):
        arrays = integers_for(change(term), seed)
        assert equal(evaluate(change(wrapped), *arrays), evaluate(change(term), *arrays))
        function = lower(Expand()(change(wrapped)))
        final = erase_barriers(optimise(function))
        assert equal(evaluate(final, *arrays), evaluate(change(term), *arrays))


@given(integer_terms(size=8), st.data(), st.integers(0, 99))
@settings(max_examples=40)
def test_a_partition_composes_to_the_reverse(term, data, seed):
    """forward ; backward = joint, and no residual depends on the free inputs only."""
    joint, count = reverse(term), len(term.source)
    free = range(data.draw(st.integers(0, count)), count)
    stored = range(data.draw(st.integers(0, free.start)), free.start)
    halves = split(joint, count, len(term.target), stored, free)
    arrays = integers_for(joint, seed)
    x, dy = arrays[:count], arrays[count:]
    values = evaluate(halves.forward, *x)
    outputs, saved = values[: len(term.target)], values[len(term.target) :]
    found = evaluate(halves.backward, *saved, *x[free.start :], *dy)
    assert equal([*outputs, *found], evaluate(joint, *arrays))
    assert not {p for p in halves.inputs if p is not None} & set(free)
    moved = [*x[: free.start], *(a + 1 for a in x[free.start :])]
    assert all(p is None or np.array_equal(x[p], moved[p]) for p in halves.inputs)


def test_values_that_depend_on_constants_only_are_not_saved():
    """exp of the weight is recomputed in each backward iteration; h is the carry, and handed backwards."""

    def turn(h, x):
        return ops.tanh(h * ops.exp(ops.square(w_of[0])) + x), ()

    w_of = []

    def loop(h, xs, w):
        w_of[:] = [w]
        return ops.scan(turn, h, xs)[0]

    term = reverse(build(loop, [ROW, NdArrayType((5, 3)), ROW]))
    (forward,) = [op for op in term.H.x.table if isinstance(op, Scan) and not op.backwards]
    assert len(forward.block.outputs) == 2  # the new h, for the next iteration and for the reverse


# Meanings


@on_targets_with("symbolic sizes")
@pytest.mark.parametrize("length", [0, 1, 4])
def test_carries_of_any_dtype(target, length):
    types = [f64(3), NdArrayType((), Dtype.int64), BOOL, f64(T, 3)]
    term = build(several, types)
    rng = np.random.default_rng(0)
    h, xs, n, b = rng.normal(size=3), rng.normal(size=(length, 3)), np.int64(1), np.bool_(True)
    w, hs, ns, bs = np.tanh(h), [], [], []
    current = h
    for x in xs:
        current = current * w + x if b else current - x * n
        hs, ns, bs = [*hs, current], [*ns, n], [*bs, b]
        n, b = n + 2, current.sum() > 0
    wanted = current, n, b, np.reshape(hs, (length, 3)), np.array(ns, np.int64), np.array(bs, bool)
    given = h, np.int64(1), np.bool_(True), xs
    for found in (evaluate(term, *given), run_on(get_backend(target), term, *given)):
        for a, c in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, c, rtol=1e-12)
        assert [a.dtype.name for a in found] == ["float64", "int64", "bool"] * 2
    outputs = [t for t in term.target.table if t.dtype is not Dtype.bool]
    dy = draw_arrays([t.substitute({"time": length}) for t in outputs])
    close(run_on(get_backend(target), reverse(term), *given, *dy), evaluate(reverse(term), *given, *dy))


def test_derivatives_agree_with_central_differences():
    """Check nested loops, loops in branches in loops, and a checkpoint in a loop, at concrete sizes."""

    def nested(h, xs, w):
        def inner(c, x):
            return ops.tanh(c * w + x), c * x

        def outer(c, x):
            c, rows = ops.scan(inner, c, xs)
            c = ops.cond(ops.sum(c) > 0, lambda c: ops.repeat(lambda a: ops.sin(a * w), 2, c), ops.square, c)
            return ops.checkpoint(lambda a: ops.tanh(a) * x, c), ops.sum(rows, 0)

        return ops.scan(outer, h, xs, backwards=True)

    def flat(*a):
        c, rows = nested(*a)
        return c, rows

    term = build(flat, [f64(3), f64(4, 3), f64(3)])
    for seed in range(4):
        check_derivative(term, (-1.0, 1.0), seed)
    check_derivative(reverse_derivative(term), (-1.0, 1.0))
    for target in ("numpy", "torch", "c"):
        arrays = draw_arrays(tuple(reverse(term).source.table), (-1.0, 1.0))
        close(run_on(get_backend(target), reverse(term), *arrays), evaluate(reverse(term), *arrays))


@pytest.mark.parametrize("length", [0, 1, 3])
@pytest.mark.parametrize("backwards", [False, True])
def test_the_second_derivative_through_a_loop(length, backwards):
    def loop(h, xs, w):
        return ops.scan(lambda c, x: (ops.sin(c * w) + x, c * c), h, xs, backwards=backwards)

    types = [f64(2), f64(length, 2), f64(2)]
    check_derivative(reverse_derivative(build(loop, types)), (-1.0, 1.0))
    check_derivative(reverse_derivative(reverse_derivative(build(loop, types))), (-1.0, 1.0))


@on_targets
def test_repeat(target):
    def powers(x, y):
        return *ops.repeat(lambda a, b: (a * b, b + a), 3, x, y), ops.repeat(lambda a: a * a, 0, x)

    term, (x, y) = build(powers, [f64(2)] * 2), (np.array([1.0, 2.0]), np.array([0.5, 3.0]))
    a, b = x, y
    for _ in range(3):
        a, b = a * b, b + a
    close(run_on(get_backend(target), term, x, y), [a, b, x], 1e-12)


@on_targets
@pytest.mark.parametrize("taken", [False, True])
def test_a_branch_may_return_its_arguments(target, taken):
    """Branches swap, repeat and ignore their operands, and return constants."""

    def swap(x, y):
        return y, x, x, Constant(x.type, -2.0)()

    def keep(x, y):
        return x, x, y, w_of[0]

    w_of = []

    def branch(b, x, y, w):
        w_of[:] = [w * 2]
        return ops.cond(b, swap, keep, x, y)

    term, arrays = build(branch, [BOOL, *[f64(2)] * 3]), draw_arrays([f64(2)] * 3)
    x, y, w = arrays
    wanted = (y, x, x, np.full(2, -2.0)) if taken else (x, x, y, 2 * w)
    close(run_on(get_backend(target), term, np.bool_(taken), *arrays), wanted, 0)
    dy = draw_arrays([f64(2)] * 4, seed=1)
    found = run_on(get_backend(target), reverse(term), np.bool_(taken), *arrays, *dy)[4:]
    a, b, c, d = dy
    close(found, (b + c, a, 0 * w) if taken else (a + b, c, 2 * d), 1e-12)


@on_targets_with("symbolic sizes")
def test_one_program_for_every_length_and_batch(target):
    """The body reads parameters, whose gradients are summed over the iterations."""
    N, x = Dim("batch"), f64(T, Dim("batch"), 2)

    def model(x):
        w, b = layers.parameter("w", f64(2, 2)), layers.parameter("b", f64(2))

        def turn(h, x):
            h = ops.tanh(h @ w + x + ops.broadcast(b, (N, 2)))
            return h, h

        return ops.scan(turn, Constant(f64(N, 2), 0)(), x)[1]

    learner = emit(Task(build(model, [x]), sgd(0.1), mse), target).load()().learner()
    learner.parameters = {"w": np.array([[0.1, 0.4], [-0.3, 0.2]]), "b": np.array([0.5, -0.5])}
    rng = np.random.default_rng(0)
    for length, batch in ((1, 3), (4, 1), (2, 2)):
        given, y = rng.normal(size=(length, batch, 2)), rng.normal(size=(length, batch, 2))
        loss, gradients = learner.grads(given, y)

        def at(w, b, given=given, y=y):
            h, total = np.zeros(given.shape[1:]), 0.0
            for x, wanted in zip(given, y, strict=True):
                h = np.tanh(h @ w + x + b)
                total += ((h - wanted) ** 2).sum()
            return total / y.size

        w, b = map(np.asarray, learner.parameters.values())
        np.testing.assert_allclose(float(loss), at(w, b), rtol=1e-12)
        v, e = rng.normal(size=(2, 2)), 1e-6
        wanted = (at(w + e * v, b) - at(w - e * v, b)) / (2 * e)
        np.testing.assert_allclose((np.asarray(gradients["w"]) * v).sum(), wanted, rtol=1e-6)


def test_unused_rows_are_not_stacked():
    def loop(h, xs, w):
        h, (_, b) = ops.scan(lambda c, x: (c * x, (ops.exp(c * w), c)), h, xs)
        return h, b

    function = optimise(lower(build(loop, [ROW, NdArrayType((5, 3)), ROW])))
    (step,) = function.body
    assert len(step.outputs) == 2 and len(step.inputs) == 2
    assert "exp" not in source_of(build(loop, [ROW, NdArrayType((5, 3)), ROW]))


def test_a_carry_that_only_itself_reads_is_removed():
    def loop(h, n, xs):
        (h, *_), ys = ops.scan(lambda c, x: ((c[0] * x, c[1] + 1, c[1] * c[2]), c[0]), (h, n, n), xs)
        return h, ys

    term = build(loop, [ROW, SCALAR, NdArrayType((5, 3))])
    (step,) = optimise(lower(term)).body
    assert len(step.outputs) == 2 and len(step.inputs) == 2
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape).astype(np.float32) for shape in ((3,), (), (5, 3))]
    assert equal(evaluate(optimise(lower(term)), *arrays), evaluate(term, *arrays))


def test_a_carry_that_a_used_carry_reads_stays():
    def loop(h, n, xs):
        (h, *_), _ = ops.scan(lambda c, x: ((c[0] + c[1] * x, c[2], c[2] + c[2]), c[0]), (h, n, n), xs)
        return h

    term = build(loop, [ROW, ROW, NdArrayType((5, 3))])
    (step,) = optimise(lower(term)).body
    assert len(step.outputs) == 3
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape).astype(np.float32) for shape in ((3,), (3,), (5, 3))]
    assert equal(evaluate(optimise(lower(term)), *arrays), evaluate(term, *arrays))


# Errors


WRONG = {
    "neither rows nor length": (lambda h: ops.scan(lambda c, x: (c, ()), h), [ROW], OptionError),
    "rows of other lengths": (
        lambda h, x, y: ops.scan(lambda c, r: (c, ()), h, (x, y)), [ROW, GRID, ROW], ShapeError
    ),
    "rows of no axis": (lambda h, x: ops.scan(lambda c, r: (c, ()), h, x), [ROW, SCALAR], OptionError),
    "a carry that grows": (
        lambda h, x: ops.scan(lambda c, r: (ops.sum(c), ()), h, x), [ROW, GRID], TypeMismatch
    ),
    "a body that returns one thing": (lambda h, x: ops.scan(lambda c, r: c, h, x), [ROW, GRID], OptionError),
    "a condition of numbers": (lambda h: ops.cond(ops.sum(h), ops.sin, ops.sin, h), [ROW], DtypeError),
    "many conditions": (lambda h: ops.cond(h > h, ops.sin, ops.sin, h), [ROW], DtypeError),
    "branches to other types": (
        lambda h: ops.cond(ops.sum(h) > 0 * ops.sum(h), ops.sin, ops.sum, h), [ROW], TypeMismatch
    ),
    "a variable of a loop used outside": (lambda h: leaked(h), [ROW], CatgradError),
    "a buffer updated inside": (
        lambda h: ops.repeat(lambda c: (layers.update("b", c), c)[1], 2, h), [ROW], CatgradError
    ),
}  # fmt: skip


def leaked(h):
    inner = []
    ops.repeat(lambda c: (inner.append(c), c)[1], 2, h)
    return h + inner[0]


@pytest.mark.parametrize("name", WRONG)
def test_invalid_loops_are_refused(name):
    function, types, error = WRONG[name]
    with pytest.raises(error):
        build(function, types)


@given(branches(), st.lists(st.booleans(), min_size=3, max_size=3), st.integers(0, 99))
@settings(max_examples=40)
def test_branches_and_checkpoints_without_some_results(both, wanted, seed):
    """The pruned operation reads all its inputs, and has the same results."""
    (then, otherwise), types = both
    count = len(then.target)
    needed = wanted[:count]
    for op, inputs in (
        (Cond(Block(then), Block(otherwise)), [BOOL, *types]),
        (Checkpoint(Block(then)), types),
    ):
        arrays = integers_for(singleton(op, *inputs), seed)
        pruned = op.pruned(needed)
        if pruned is None:
            assert all(needed)
            continue
        narrow, kept, left = pruned
        values = evaluate(singleton(narrow, *(inputs[i] for i in kept)), *(arrays[i] for i in kept))
        whole = evaluate(singleton(op, *inputs), *arrays)
        assert [i for i, keep in enumerate(needed) if keep] == list(left)
        assert equal(values, [whole[i] for i in left])
        assert narrow.pruned([True] * len(left)) is None
