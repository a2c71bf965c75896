"""Emitted loops: names, invariants before the loop, simultaneous assignments, deterministic text."""

from __future__ import annotations

import ast
import re

import numpy as np
import pytest

from catgrad import Dtype, NdArrayType, Task, build, layers, mse, ops, sgd
from catgrad.functors import reverse
from catgrad.programs.program import evaluate
from catgrad.targets import get_backend
from catgrad.terms.structural import Constant
from catgrad.testing import draw_arrays, run_on
from tests.control import BOOL, T, close, f64, several, source_of
from tests.strategies import ROW
from tests.targets import emit, on, on_targets

in_python = on("numpy", "torch")


@pytest.mark.covering
@on_targets
@pytest.mark.parametrize(
    "name", ["reversed", "range", "t", "x_t", "carry", "rows_rows", "h", "new_h", "math"]
)
def test_names_of_loops_do_not_collide(target, name):
    """Parameters are called like variables of emitted loops, and like the builtins that these use."""

    def model(x):
        w = layers.parameter(name, NdArrayType((2,)))

        def turn(h, x):
            h = layers.label("new_h", ops.tanh(layers.label("h", h) * w + x))
            return h, layers.label("row", h * w)

        return ops.scan(turn, Constant(NdArrayType((2,)), 0)(), x)[1]

    learner = emit(Task(build(model, [NdArrayType((4, 2))]), sgd(0.1), mse), target).load()().learner()
    learner.parameters = {name: np.float32([0.5, -1])}
    x, h, wanted = np.float32(np.arange(8).reshape(4, 2) / 8), np.zeros(2), []
    for row in x:
        h = np.tanh(h * [0.5, -1] + row)
        wanted.append(h * [0.5, -1])
    np.testing.assert_allclose(np.asarray(learner.predict(x)), wanted, rtol=1e-5)
    learner.step(x, x)


@in_python
def test_a_value_read_in_a_loop_is_computed_before_it(target):
    """Inlined expressions would be computed in each iteration."""

    def loop(h, xs, w):
        scale = ops.exp(w) * 2 + 1
        return ops.scan(lambda c, x: (c * scale + x * scale, ()), h, xs)[0]

    text = source_of(build(loop, [ROW, NdArrayType((5, 3)), ROW]), target)
    before, _, inside = text.partition("for ")
    assert "exp" in before and "exp" not in inside
    assert inside.count("scale") == 0 or "exp" not in inside


@in_python
def test_variables_are_assigned_before_use_and_emission_is_deterministic(target):
    term = reverse(build(several, [f64(3), NdArrayType((), Dtype.int64), BOOL, f64(T, 3)]))
    text = source_of(term, target)
    assert text == source_of(reverse(build(several, list(term.source.table)[:4])), target)
    tree = ast.parse(text)
    targets = [n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    arguments = [a.arg for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) for a in n.args.args]
    assert not set(targets) & set(arguments)
    assert not re.search(r"\bNone = |\bTrue = ", text)


@on_targets
def test_carries_that_read_each_other_are_assigned_simultaneously(target):
    def swap(a, b, c):
        return ops.repeat(lambda a, b, c: (b, c, a + b), 5, a, b, c)

    def around(a, b, c):
        return ops.repeat(lambda a, b, c: (c, a, b), 4, a, b, c)

    arrays = draw_arrays([f64(2)] * 3)
    for function in (swap, around):
        term = build(function, [f64(2)] * 3)
        close(run_on(get_backend(target), term, *arrays), evaluate(term, *arrays), 1e-12)
