"""Common mistakes of new users raise a typed error."""

from __future__ import annotations

import numpy as np
import pytest

from catgrad import CatgradError, Dtype, NdArrayType, Task, build, emit, layers, losses, mse, ops, sgd
from catgrad.errors import DtypeError, OptionError, ShapeError, TermError, TypeMismatch

X, ROWS, TRUTH = NdArrayType((3,)), NdArrayType((2, 3)), NdArrayType((), Dtype.bool)

FUNCTIONS = {
    "a body that carries more than it got": (
        lambda h, xs: ops.scan(lambda c, x: ((c, x), c), h, xs), [X, ROWS], TypeMismatch, "as many carries",
    ),
    "a body that carries less than it got": (
        lambda h, xs: ops.scan(lambda c, x: (c[0], x), (h, h), xs), [X, ROWS], TypeMismatch, "it takes 2",
    ),
    "a number to carry": (
        lambda xs: ops.scan(lambda c, x: (c, c), 0.0, xs), [ROWS], TermError, "must be applied to variables",
    ),
    "a list to run over": (
        lambda h: ops.scan(lambda c, x: (c, c), h, [1.0, 2.0]), [X], TermError, "one is 1.0",
    ),
    "a number as an operand of a branch": (
        lambda c: ops.cond(c, ops.sin, ops.cos, 1.0), [TRUTH], TermError, "cond must be applied to variables",
    ),
    "a truth value of Python as a condition": (
        lambda h: ops.cond(True, ops.sin, ops.cos, h), [X], TermError, "one is True",
    ),
    "a number in a checkpoint": (
        lambda h: ops.checkpoint(ops.sin, 1.0), [X], TermError, "checkpoint must be applied to variables",
    ),
    "batch norm in a checkpoint": (
        lambda x: ops.checkpoint(layers.batch_norm(ROWS), x), [ROWS], TermError, "outside loops, branches",
    ),
    "batch norm in a loop": (
        lambda x: ops.repeat(layers.batch_norm(ROWS), 2, x), [ROWS], TermError, "outside loops, branches",
    ),
    "a function without return": (lambda x: None, [X], TermError, "end it with return y"),
    "the body of a loop without return": (
        lambda h, xs: ops.scan(lambda c, x: None, h, xs), [X, ROWS], OptionError, "must return the carries",
    ),
    "a branch without return": (
        lambda c, x: ops.cond(c, lambda y: None, ops.sin, x), [TRUTH, X], TermError, "end it with return y",
    ),
    "a type where a list of types should be": (lambda x: x, X, OptionError, "they are f32"),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_refused(name):
    function, types, error, message = FUNCTIONS[name]
    with pytest.raises(error, match=message):
        build(function, types)


def test_a_loop_outside_any_function():
    with pytest.raises(CatgradError):
        ops.scan(lambda c, x: (c, c), 0.0, length=3)


def test_a_number_beside_a_variable_from_around_a_loop_is_written_inside():
    """An input of the loop would have an accumulated gradient in the reverse."""

    def model(xs):
        k = layers.parameter("k", X)
        return ops.scan(lambda c, x: (c * (2 * k) + x, c), k, xs)[1]

    source = emit(Task(build(model, [ROWS]), sgd(0.1), mse)).source
    assert "2.0" not in source
    assert "2 * k" in source


DENSE = layers.dense(NdArrayType((2,)), X, X)
CLASSES = NdArrayType((2,), Dtype.int64)

TASKS = {
    "an optimiser that is not called": ((DENSE, sgd, mse), OptionError, "its optimiser is <function sgd"),
    "loss and optimiser in the other order": ((DENSE, mse, sgd(0.1)), OptionError, "in this order"),
    "a layer that is not called": ((layers.dense, sgd(0.1), mse), OptionError, "its model is <function"),
    "the name of a loss": ((DENSE, sgd(0.1), "mse"), OptionError, "its loss is 'mse'"),
    "one type as labels": (
        (DENSE, sgd(0.1), losses.cross_entropy, "model", CLASSES), OptionError, "a tuple of types",
    ),
    "shapes as labels": ((DENSE, sgd(0.1), mse, "model", ((2, 3),)), OptionError, "a tuple of types"),
    "a loss that is a number of NumPy": (
        (DENSE, sgd(0.1), lambda p, y: np.float32(1)), ShapeError, "scalar variable of the term",
    ),
    "a loss of whole numbers": (
        (DENSE, sgd(0.1), lambda p, y: ops.sum(ops.argmax(p, 1))), DtypeError, "must be floating-point",
    ),
    "a loss that is a truth value": (
        (DENSE, sgd(0.1), lambda p, y: ops.sum(p) > 0), DtypeError, "must be floating-point",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TASKS)
def test_tasks_are_refused(name):
    arguments, error, message = TASKS[name]
    with pytest.raises(error, match=message):
        emit(Task(*arguments))
