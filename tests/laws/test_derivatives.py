"""Derivatives as operations: laws of linear maps and of duality, symmetry, and differences of any order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catgrad import Dim, Functions, emit, ops
from catgrad.errors import DtypeError, OptionError, ShapeError, TermError, TypeMismatch
from catgrad.functors import evaluation
from catgrad.learn import layers
from catgrad.learn.losses import mse
from catgrad.learn.optimisers import sgd
from catgrad.learn.task import Task
from catgrad.programs.program import evaluate
from catgrad.terms.build import build
from catgrad.terms.dead_code import eliminate_dead_code
from catgrad.terms.term import substitute
from catgrad.testing import check_derivative, draw_arrays
from catgrad.types import Dtype, NdArrayType

X = NdArrayType((3,), Dtype.float64)
WIDE = NdArrayType((2, 3), Dtype.float64)
BATCH, FEATURES = NdArrayType((Dim("batch"),), Dtype.float64), X
seeds = st.integers(0, 10**6)


def bent(x):
    return ops.softmax(ops.tanh(x) * x)


def energy(x):
    return ops.sum(bent(x) * ops.sin(x))


def dot(xs, ys):
    return sum(float(np.sum(x * y)) for x, y in zip(xs, ys, strict=True))


@given(seeds)
def test_the_gradient_of_a_linear_map_is_constant(seed):
    gradient = build(ops.grad(lambda x, a: ops.sum(x * a)), [X, X])
    x, a = draw_arrays((X, X), seed=seed)
    np.testing.assert_array_equal(evaluate(gradient, x, a)[0], a)


@given(seeds)
def test_jvp_and_vjp_are_adjoint(seed):
    x, v, w = draw_arrays((WIDE, WIDE, WIDE), seed=seed)
    (pushed,) = evaluate(build(ops.jvp(bent), [WIDE, WIDE]), x, v)
    (pulled,) = evaluate(build(ops.vjp(bent), [WIDE, WIDE]), x, w)
    np.testing.assert_allclose(dot([pushed], [w]), dot([v], [pulled]), rtol=1e-12, atol=1e-14)


@given(seeds)
def test_hvp_is_symmetric_and_the_jvp_of_the_gradient(seed):
    x, v, w = draw_arrays((X, X, X), seed=seed)
    product = build(ops.hvp(energy), [X, X])
    (hv,), (hw,) = evaluate(product, x, v), evaluate(product, x, w)
    np.testing.assert_allclose(dot([hv], [w]), dot([hw], [v]), rtol=1e-10, atol=1e-12)
    (forward,) = evaluate(build(ops.jvp(ops.grad(energy)), [X, X]), x, v)
    np.testing.assert_allclose(forward, hv, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_gradients_of_gradients_agree_with_central_differences(order):
    function = energy
    for _ in range(order):
        function = summed(ops.grad(function))
    check_derivative(build(function, [X]))


def summed(function):
    return lambda x: ops.sum(ops.sin(function(x)))


def test_derivatives_of_several_arguments_and_results():
    def function(x, y):
        return x * y, ops.sum(ops.exp(x))

    def forward(x, y, v, w):
        return ops.jvp(function)((x, y), (v, w))

    def backward(x, y, v, w):
        return ops.vjp(function)((x, y), (v, ops.sum(w)))

    x, y, v, w = draw_arrays((X, X, X, X), seed=0)
    for found, wanted in zip(
        evaluate(build(forward, [X] * 4), x, y, v, w), (x * w + v * y, np.sum(np.exp(x) * v)), strict=True
    ):
        np.testing.assert_allclose(found, wanted)
    for found, wanted in zip(
        evaluate(build(backward, [X] * 4), x, y, v, w), (v * y + w.sum() * np.exp(x), v * x), strict=True
    ):
        np.testing.assert_allclose(found, wanted)


def test_a_gradient_by_chosen_arguments_takes_indices_and_conditions_too():
    def function(index, x, flag, y):
        return ops.sum(ops.select(flag, ops.gather(x, index), y))

    types = [NdArrayType((3,), Dtype.int64), X, NdArrayType((3,), Dtype.bool), X]
    gradient = build(ops.grad(function, argument=(1, 3)), types)
    index, flag = np.array([0, 0, 2]), np.array([True, False, True])
    dx, dy = evaluate(gradient, index, np.ones(3), flag, np.ones(3))
    np.testing.assert_array_equal(dx, [1, 0, 1])
    np.testing.assert_array_equal(dy, [0, 1, 0])


@pytest.mark.parametrize("derivative", [ops.grad(energy), lambda x: ops.jvp(ops.sin)(x, x)])
def test_nothing_is_computed_that_no_result_reads(derivative):
    """A forward derivative, made of two reverse ones, has no operation of the first."""
    program = emit(Functions({"f": build(derivative, [X])}, "f")).program
    (function,) = [f for f in program.functions if f.name == "f"]
    read = {value for apply in function.body for value in apply.inputs} | set(function.results)
    assert all(not read.isdisjoint(apply.outputs) for apply in function.body)


def slopes(x):
    """A network and the squares of its slopes, by one set of parameters."""
    net = layers.shared(layers.dense(BATCH, FEATURES, FEATURES, layers.tanh))
    return net(x) + ops.square(ops.grad(lambda p: ops.sum(net(p)))(x))


@pytest.mark.parametrize("target", ["numpy", "c"])
def test_a_training_step_differentiates_through_a_gradient(target):
    task = Task(build(slopes, [BATCH + FEATURES]), sgd(0.1), mse, "slopes")
    assert [slot.name for slot in task.parameters] == ["dense.weight", "dense.bias"]
    check_derivative(substitute(task.term("trained"), {"batch": 2}))
    learner = emit(task, target).load()().learner(0)
    x, y = (np.random.default_rng(k).normal(size=(4, 3)) for k in range(2))
    losses = [float(learner.step(x, y)) for _ in range(20)]
    assert losses == sorted(losses, reverse=True)


def test_evaluation_reaches_the_function_inside_a_gradient():
    """The gradient of dropout in evaluation is that of the identity."""
    dropped = layers.dropout(X, 0.5)
    gradient = build(ops.grad(lambda x: ops.sum(ops.square(dropped(x)))), [X])
    term = eliminate_dead_code(evaluation(gradient))  # nothing draws
    np.testing.assert_array_equal(evaluate(term, np.ones(3))[0], [2, 2, 2])


@pytest.mark.parametrize(
    ("function", "types", "error", "message"),
    [
        (ops.grad(ops.tanh), [X], ShapeError, "apply ops.sum to it"),
        (ops.grad(ops.sum, argument=1), [X], OptionError, "count from 0"),
        (ops.grad(ops.sum), [NdArrayType((3,), Dtype.int32)], DtypeError, "floating-point"),
        (lambda x: ops.vjp(ops.tanh)(x, ops.sum(x)), [X], TypeMismatch, "a cotangent for each result"),
        (lambda x: ops.jvp(ops.tanh)(x, ops.sum(x)), [X], TypeMismatch, "a cotangent for each result"),
        (lambda x: ops.jvp(ops.tanh)(x, 1.0), [X], TermError, "jvp must be applied to variables"),
    ],
)
def test_functions_without_a_derivative_are_refused(function, types, error, message):
    with pytest.raises(error, match=message):
        build(function, types)
