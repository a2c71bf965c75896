"""Parameters stored in int8: updates between levels, whose mean is that of float32, on every target."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from catgrad.examples import digits

import catgrad
from catgrad import Dtype, NdArrayType, Task, build, emit, layers, mse, ops, optimisers, sgd
from catgrad.errors import OptionError
from catgrad.initialisers import Normal, Stored
from catgrad.ops.cast import Cast
from catgrad.programs.ports import Kind, Role
from catgrad.quantisation import quantise
from catgrad.quantisation.levels import rounding
from tests.conformance.test_quantised_training import NETS, given
from tests.targets import LONG, on

SCALES = np.linspace(0.01, 0.08, 8, dtype=np.float32).reshape(1, 8)
RNG = np.random.default_rng(0)
LEVELS = RNG.integers(-100, 101, (512, 8)).astype(np.float32)
GRADIENT = RNG.normal(size=(512, 8)).astype(np.float32)


def updated(optimiser, array, steps=1):
    """Return the state and parameter after some updates with one gradient."""

    def model(x):
        return ops.cast(x, Dtype.float32) * layers.parameter("w", NdArrayType((512, 8)), Stored(array))

    task = Task(build(model, [NdArrayType((512, 8))]), optimiser, mse)
    compiled = emit(task, "numpy", functions=("predict", "grads", "update", "step")).load()()
    learner = compiled.learner(0)
    for _ in range(steps):
        learner.update({"w": GRADIENT})
    return np.asarray(learner.parameters["w"])


@pytest.mark.parametrize(
    "optimiser",
    [
        sgd(0.03),
        sgd(0.02, momentum=0.9, nesterov=True),
        optimisers.adamw(0.01, weight_decay=0.1),
        optimisers.ema(sgd(0.05), 0.5),
        optimisers.clipped(sgd(1.0), 3.0),
    ],
    ids=lambda optimiser: optimiser.name,
)
def test_an_update_is_that_of_numbers_rounded_to_a_neighbouring_level(optimiser):
    wanted = updated(optimiser, LEVELS * SCALES) / SCALES
    found = updated(rounding(optimiser, {"w": SCALES}), LEVELS)
    assert np.all(found == np.rint(found))
    assert np.max(np.abs(found - wanted)) < 1 + 1e-3
    # The mean of 4,096 numbers, each with a deviation of at most a half, is as near as this.
    assert abs(np.mean(found - wanted)) < 4 * 0.5 / 64


def test_updates_of_a_fraction_of_a_level_are_not_lost():
    small = sgd(float(0.02 * SCALES.min()))
    change = updated(rounding(small, {"w": SCALES}), LEVELS, steps=100) - LEVELS
    wanted = -100 * 0.02 * SCALES.min() * GRADIENT / SCALES
    assert np.mean((change - wanted) * -np.sign(GRADIENT)) == pytest.approx(0, abs=0.05)
    assert np.mean(np.abs(wanted)) > 0.5


def test_levels_end_at_the_greatest():
    found = updated(rounding(sgd(100.0), {"w": SCALES}), LEVELS)
    assert np.max(np.abs(found)) == 127 and np.mean(np.abs(found) == 127) > 0.9


@cache
def stored(name):
    """Return a quantised task with parameters in int8, an input and a target."""
    task, arrays, quantised, x, dy = given(name)
    names = [slot.name for slot in quantised.parameters]
    y = np.asarray(emit(task, "numpy").load()().learner(0).predict(x)) - dy
    return quantise(task, arrays, [(x, y)], train=names, parameters=Dtype.int8), x, y


@cache
def trained(name, target):
    """Return three losses and the parameters after these steps."""
    task, x, y = stored(name)
    learner = emit(task, target).load()().learner(0)
    losses = [float(learner.step(x, y)) for _ in range(3)]
    return losses, {slot.name: np.array(learner.parameters[slot.name]) for slot in task.stored}


@on("numpy", "torch", "c", "javascript", "wasm", long=LONG)
@pytest.mark.parametrize("name", ["cnn", "depthwise", "resnet"])
def test_all_targets_take_the_same_steps(target, name):
    task, *_ = stored(name)
    found_losses, arrays = trained(name, target)
    losses, references = trained(name, "numpy")
    assert found_losses == pytest.approx(losses, rel=1e-3)
    for slot in task.stored:
        found, wanted = arrays[slot.name], references[slot.name]
        assert found.dtype == wanted.dtype == (np.int8 if slot.type.rank > 1 else np.float32)
        # A sum in another order may be on the other side of a whole number.
        differing = np.abs(found.astype(np.float32) - wanted) > 1e-3
        assert np.mean(differing) < 0.01, slot.name
        assert found.dtype != np.int8 or np.max(np.abs(found.astype(int) - wanted)) <= 1


@pytest.mark.parametrize("name", NETS)
def test_products_read_the_levels_that_are_stored(name):
    """The model at levels q is that of weights s · q in float32, which it rounds to q."""
    task, x, _ = stored(name)
    plain = given(name)[2]
    compiled = [emit(each, "numpy").load()() for each in (task, plain)]
    q = [slot.initial.array for slot in task.stored]
    w = [q * task.parameter_scales.get(slot.name, 1) for q, slot in zip(q, task.stored, strict=True)]
    assert any(array.dtype == np.int8 for array in q)
    [found], [wanted] = (
        c.predict(*c.init_buffers(), *arrays, x)
        for c, arrays in zip(compiled, (q, [array.astype(np.float32) for array in w]), strict=True)
    )
    np.testing.assert_array_equal(found, wanted)
    predict = emit(task, "numpy").program.kinds[Kind.PREDICT]
    reads = [apply.op for apply in predict.body if {*apply.inputs} & {*predict.taking(Role.PARAMETER)}]
    assert Cast(Dtype.int8, Dtype.float32) not in reads  # products read no rounded copy


SHAPES = {"a bias": ((1, 4), ops.add), "places": ((5, 4), ops.add), "a gain": ((1, 4), ops.multiply)}


@on("numpy", "c", "javascript", long=("javascript",))
@pytest.mark.parametrize("name", SHAPES)
def test_matrices_that_are_no_factors_are_read_as_the_numbers_of_their_levels(target, name):
    shape, combine = SHAPES[name]

    def model(x):
        w = layers.parameter("w", NdArrayType((6, 4)), Normal(0, 0.5))
        y = layers.parameter("y", NdArrayType(shape), Normal(0.5, 0.5))
        return ops.relu(combine(x @ w, ops.broadcast_to(y, (8, 5, 4))))

    task, rng = Task(build(model, [NdArrayType((8, 5, 6))]), sgd(0.05), mse), np.random.default_rng(0)
    plain = emit(task, "numpy").load()().learner(0)
    x, y = (rng.normal(size=(8, 5, n)).astype(np.float32) for n in (6, 4))
    small = quantise(task, plain, [(x, y)], train=["w", "y"], parameters=Dtype.int8)
    learner = emit(small, target).load()().learner(0)
    for _ in range(5):
        np.testing.assert_allclose(learner.predict(x), plain.predict(x), atol=0.25)
        np.testing.assert_allclose(learner.step(x, y), plain.step(x, y), rtol=0.05)


def test_files_keep_levels(tmp_path):
    task, x, y = stored("cnn")
    catgrad.save(task, tmp_path / "task.json")
    loaded = catgrad.load(tmp_path / "task.json")
    learners = [
        emit(each, "numpy", functions=("predict", "step")).load()().learner(0) for each in (task, loaded)
    ]
    losses = [[float(learner.step(x, y)) for _ in range(2)] for learner in learners]
    assert losses[0] == losses[1]


def test_emitted_files_explain_levels():
    task, _, _ = stored("cnn")
    for name in ("README.md", "manifest.json"):
        text = " ".join(str(emit(replace(task, name="digits"), "c").files[name]).split())
        assert (
            "Parameters in int8: 0.conv.weight, 3.conv.weight, 7.dense.weight. A level q stands for s · q"
            in text
        ), name


def test_gradients_of_levels_are_refused():
    task, _, _ = stored("cnn")
    with pytest.raises(OptionError, match="gradients must be of parameters in float32"):
        emit(task, "numpy", functions=("predict", "grads"))
    with pytest.raises(OptionError, match="parameters that train in int8"):
        quantise(digits.mlp(), {}, [], parameters=Dtype.int8)
    with pytest.raises(OptionError, match="must be Dtype"):
        quantise(digits.mlp(), {}, [], train=["1"], parameters=Dtype.float16)
