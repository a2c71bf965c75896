"""Traces: their numbers are those of the target, and they find the operation that makes the first NaN."""

from __future__ import annotations

import re

import numpy as np
import pytest

from catgrad import Dim, NdArrayType, Task, build, layers, mse, ops, optimisers, trace
from catgrad.errors import OptionError, ShapeError
from catgrad.learn.reports.trace import MAX_DRAWN_OPERATIONS, arguments
from catgrad.programs.ports import Kind
from catgrad.terms.draw import around, dot
from catgrad.terms.term import check_functional, edges
from examples import digits
from tests.models import mlp
from tests.targets import emit, on
from tests.unit.command import run

ROWS = NdArrayType((Dim("n"), 3))
BATCH, INPUT, OUTPUT = NdArrayType((Dim("batch"),)), NdArrayType((4,)), NdArrayType((3,))
X = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)


def logarithm(x):
    """A mean of logarithms, which is NaN for numbers below one half."""
    return ops.mean(ops.log(x - 0.5) * 2)


def recurrent() -> Task:
    """A loop, running statistics and random numbers."""
    steps, hidden = NdArrayType((Dim("batch"), 5)), NdArrayType((6,))
    model = layers.lstm(steps, INPUT, hidden) >> build(lambda h: ops.mean(h, 1), [steps + hidden])
    model = model >> layers.batch_norm(BATCH + hidden) >> layers.dropout(BATCH + hidden, 0.5)
    return Task(model >> layers.dense(BATCH, hidden, OUTPUT), optimisers.adam(0.1), mse)


TASKS = {
    "mlp": (mlp, [(6, 4), (6, 3)]),
    "cnn": (digits.cnn, [(3, 1, 8, 8), (3,)]),
    "recurrent": (recurrent, [(2, 5, 4), (2, 3)]),
}


@pytest.mark.covering
@on("numpy", "torch", "c")
@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("function", ["predict", "step"])
def test_traces_have_the_numbers_of_the_target(name, function, target):
    make, shapes = TASKS[name]
    task, rng = make(), np.random.default_rng(0)
    drawn = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
    drawn[1] = rng.integers(0, 10, shapes[1]) if name == "cnn" else drawn[1]
    own = drawn[: 1 if function == "predict" else 2]
    found = trace(task, *own, function=function, target=target)
    expected = getattr(emit(task).load()(), function)(*arguments(task, function, own))
    assert found.first_nan is None and found.nan_arguments == ()
    for result, array in zip(found.results, expected, strict=True):
        np.testing.assert_allclose(np.asarray(result), array, rtol=2e-4, atol=2e-5)


@on("numpy", "torch", "jax", "c")
def test_the_first_operation_that_makes_a_nan_is_found(target):
    term = build(logarithm, [ROWS])
    found = trace(term, X, target=target)
    assert type(found.first_nan.op).__name__ == "Log"
    assert found.first_nan.nans == (X < 0.5).sum()
    assert "the first NaN of numbers is made by Log" in str(found)
    assert trace(term, np.abs(X) + 1, target=target).first_nan is None


def test_nan_in_arguments_is_nobodys():
    found = trace(build(logarithm, [ROWS]), np.where(X > 1, np.nan, np.abs(X) + 1).astype(np.float32))
    assert found.first_nan is None
    assert found.nan_arguments == (0,)
    assert "NaN comes from argument 0" in str(found)


def test_a_hook_sees_each_operation_with_its_arrays():
    seen = []
    found = trace(mlp(), np.ones((2, 4), np.float32), function="predict", hook=seen.append)
    assert [visit.edge for visit in seen] == [step.edge for step in found.steps]
    assert all(visit.seconds > 0 for visit in seen)
    named = {visit.name: visit.outputs[0] for visit in seen if visit.name}
    np.testing.assert_array_equal(named["dense_1.out"], found.results[0])
    for visit, step in zip(seen, found.steps, strict=True):
        assert [array.shape for array in visit.outputs] == [type.shape for type in step.types]
        assert step.magnitude == max(np.abs(array).max() for array in visit.outputs)


def test_the_tables_are_those_of_a_learner():
    task = mlp()
    learner = emit(task).load()().learner(3)
    learner.parameters["dense_0.bias"] = np.full(5, np.nan, np.float32)
    x = np.ones((2, 4), np.float32)
    assert trace(task, x, x[:, :3], learner=learner).nan_arguments != ()
    assert trace(task, x, x[:, :3]).nan_arguments == ()


def test_wrong_functions_and_arrays_are_refused():
    with pytest.raises(OptionError, match="did you mean 'predict'"):
        trace(mlp(), X, function="predit")
    with pytest.raises(ShapeError, match="pass x, y"):
        trace(mlp(), X)
    with pytest.raises(ShapeError, match=r"f32\[n,3\]"):
        trace(build(logarithm, [ROWS]), X[0])


def test_the_operation_is_red_in_the_diagram():
    found = trace(build(logarithm, [ROWS]), X)
    red = [line for line in dot(found.term, found.first_nan.edge).body if "#c00000" in line]
    assert len(red) == 1 and "Log" in red[0]


def test_the_neighbours_of_an_operation_are_a_term():
    term, _, _ = digits.cnn().entry(Kind.STEP)
    every = edges(term)
    assert len(every) > MAX_DRAWN_OPERATIONS
    for k in range(0, len(every), 50):
        part, place = around(term, k, 3)
        check_functional(part)
        assert edges(part)[place].op == every[k].op
        assert len(edges(part)) < len(every)
    whole, place = around(term, 7, len(every))
    assert edges(whole)[place].op == every[7].op


def test_the_command_line_draws_the_first_nan(tmp_path):
    code = """
from catgrad import Dim, NdArrayType, Task, build, mse, ops, sgd
task = Task(build(lambda x: ops.log(x), [NdArrayType((Dim("batch"), 3))]), sgd(0.1), mse)
"""
    (tmp_path / "net.py").write_text(code)
    np.savez(tmp_path / "batch.npz", x=-np.ones((2, 3), np.float32), y=np.ones((2, 3), np.float32))
    options = ("--data", f"{tmp_path}/batch.npz", "-o", f"{tmp_path}/nan.svg")
    done = run("run", f"{tmp_path}/net.py:task", "--trace", *options)
    assert done.returncode == 0, done.stderr
    assert "made by Log" in done.stdout
    assert re.search(r"stroke=\"#c00000\".*?Log", (tmp_path / "nan.svg").read_text(), re.DOTALL)
    plain = run("run", f"{tmp_path}/net.py:task", "-f", "predict", "--data", f"{tmp_path}/batch.npz")
    assert re.search(r"^y_hat +\[2, 3\] +– +– +– +6$", plain.stdout, re.MULTILINE), (
        plain.stdout + plain.stderr
    )
    wrong = run("run", f"{tmp_path}/net.py:task", "-f", "update", "--data", f"{tmp_path}/batch.npy")
    assert wrong.returncode == 2 and "must be readable" in wrong.stderr


def test_the_command_line_runs_functions_on_random_arrays():
    done = run("run", "examples.iris:hidden", "-f", "step", "--size", "batch=5", "--target", "numpy")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^dense_0.weight +\[4, 20\] ", done.stdout, re.MULTILINE)
