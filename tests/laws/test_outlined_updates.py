"""Outlined optimisers in Python targets: one function for equal updates of parameters of any shape."""

import ast

import numpy as np
import pytest

from catgrad import Task, emit, losses, optimisers
from catgrad.learn.optimiser import clipped, frozen, grouped
from tests.models import mlp
from tests.targets import on

PYTHON = on("numpy", "torch", "jax")


def called(task, target):
    """Return the functions of an emitted module that update a parameter, with the number of calls of each."""
    tree = ast.parse(emit(task, target).source)
    functions = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)]
    updates = [each.name for each in functions if "gradient" in [a.arg for a in each.args.args]]
    calls = [
        each.func.id for each in ast.walk(tree) if isinstance(each, ast.Call) and hasattr(each.func, "id")
    ]
    return {name: calls.count(name) for name in updates}


def task(optimiser):
    """Return the training of an MLP of two layers, each with a matrix and a vector, by an optimiser."""
    return Task(mlp().model, optimiser, losses.mse)


@PYTHON
def test_parameters_of_any_shape_share_the_function_of_their_optimiser(target):
    assert called(task(optimisers.adamw(0.01)), target) == {"adamw": 4}
    assert called(task(optimisers.nadam(0.01)), target) == {"nadam": 4}


@PYTHON
def test_a_short_update_is_written_where_it_is(target):
    assert called(task(optimisers.sgd(0.01)), target) == {}


@PYTHON
def test_groups_of_parameters_have_a_function_each(target):
    matrices, vectors = optimisers.adamw(1e-3), optimisers.adamw(1e-3, weight_decay=0)
    of_rank = grouped(lambda p: matrices if p.type.rank > 1 else vectors)
    assert called(task(of_rank), target) == {"update": 2, "update_1": 2}
    alone = grouped(lambda p: optimisers.adam(1e-3) if p.type.rank > 1 else frozen())
    assert called(task(alone), target) == {"update": 2}


@PYTHON
def test_a_scale_of_all_gradients_is_an_argument(target):
    assert called(task(clipped(optimisers.adam(0.01), 1.0)), target) == {"update": 4}


@pytest.mark.parametrize(
    "optimiser",
    [
        optimisers.adamw(0.01),
        clipped(optimisers.adam(0.01), 0.1),
        optimisers.adam(0.01, amsgrad=True),
        optimisers.adamax(0.01),
        optimisers.rprop(0.01),
    ],
    ids=["adamw", "clipped", "amsgrad", "adamax", "rprop"],
)
@PYTHON
def test_steps_are_those_of_c(target, optimiser):
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((6, size), np.float32) for size in (4, 3))
    tables = []
    for each in (target, "c"):
        learner = emit(task(optimiser), each).load()().learner(seed=1)
        for _ in range(3):
            learner.step(x, y)
        tables.append({name: np.asarray(array) for name, array in learner.parameters.items()})
    for name, expected in tables[1].items():
        np.testing.assert_allclose(tables[0][name], expected, rtol=1e-4, atol=1e-6)
