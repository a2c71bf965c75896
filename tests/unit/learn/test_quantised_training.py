"""Training in int8: accuracy beside float32, layers that are frozen, and refusals."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from catgrad.examples import digits

from catgrad import Dtype, NdArrayType, Task, accuracy, build, emit, fit, layers, load, mse, ops, save, sgd
from catgrad.errors import OptionError, UnsupportedOp
from catgrad.initialisers import Normal
from catgrad.ops.derivatives import DeclaredReverse
from catgrad.quantisation import quantise

TRAINED = slice(digits.TRAINING)
HELD_OUT = slice(digits.TRAINING, None)


@pytest.fixture(scope="module")
def upright():
    """Return the convolutional network of digits, trained for some epochs in C, with the data, turned."""
    x, y = digits.load()
    task = digits.cnn()
    learner = emit(task, "c").load()().learner(0)
    fit(learner, (x[TRAINED], y[TRAINED]), steps=300, batch_size=64, seed=0)
    return replace(task, optimiser=sgd(0.05)), learner, x, np.rot90(x, 1, (2, 3)).copy(), y


def trained(task, arrays, x, y):
    """Return a learner after steps from these parameters, and its accuracy on digits that it has not seen."""
    learner = emit(task, "c", functions=("predict", "loss", "step")).load()().learner(0)
    for name, array in arrays.items():
        learner.parameters[name][...] = array
    fit(learner, (x[TRAINED], y[TRAINED]), steps=600, batch_size=16, seed=0)
    return learner, accuracy(np.asarray(learner.predict(x[HELD_OUT])), y[HELD_OUT])


def test_accuracy_is_that_of_training_in_floats(upright):
    task, learner, x, turned, y = upright
    small = quantise(task, learner, [(x[:128], y[:128]), (x[128:256], y[128:256])], train=["0", "3", "7"])
    assert accuracy(np.asarray(learner.predict(turned[HELD_OUT])), y[HELD_OUT]) < 0.3
    _, wanted = trained(task, learner.parameters, turned, y)
    _, found = trained(small, {}, turned, y)
    assert wanted > 0.9 and found > wanted - 0.02


def test_frozen_layers_stay_and_have_no_gradient(upright):
    task, learner, x, turned, y = upright
    small = quantise(task, learner, [(x[:128], y[:128])], train=["7.dense.bias", "3.conv.weight"])
    assert [p.name for p in small.parameters] == ["3.conv.weight", "7.dense.bias"]
    assert {s.name for s in small.buffers if s.type.dtype is Dtype.int8} == {
        "0.conv.weight",
        "7.dense.weight",
    }
    tuned = emit(small, "c", functions=("predict", "step")).load()().learner(0)
    before = {name: array.copy() for name, array in {**tuned.buffers, **tuned.parameters}.items()}
    for first in range(0, 640, 64):
        tuned.step(turned[first : first + 64], y[first : first + 64])
    same = {n for n, a in {**tuned.buffers, **tuned.parameters}.items() if np.array_equal(a, before[n])}
    assert same == before.keys() - {p.name for p in small.parameters}


def test_a_cotangent_is_computed_up_to_the_first_layer_that_trains(upright):
    task, learner, x, _, y = upright
    products = {}
    for train in (["7"], ["3.conv.bias", "7"], ["3", "7"], ["0", "3", "7"]):
        small = quantise(task, learner, [(x[:64], y[:64])], train=train)
        [op] = [op for op in small.model.H.x.table if isinstance(op, DeclaredReverse)]
        counts = [Counter(type(o).__name__ for o in b.term.H.x.table) for b in (op.forward, op.backward)]
        products[len(small.parameters)] = [count["Contract"] for count in counts]
    # The reverse repeats the products of the layers before; with it, they are common subexpressions.
    assert products == {2: [3, 3], 3: [3, 4], 4: [3, 5], 6: [3, 7]}


def test_weights_have_one_array_of_levels(upright):
    """Frozen weights through which a cotangent goes are stored once, whatever axes their scales have."""
    task, learner, x, _, y = upright
    small = quantise(task, learner, [(x[:64], y[:64])], train=["0"])
    shapes = sorted(s.type.shape for s in small.buffers if s.type.dtype is Dtype.int8)
    assert shapes == [(16, 8, 3, 3), (64, 10)]


def test_a_task_that_trains_in_integers_is_saved_and_loaded(upright, tmp_path):
    task, learner, x, _, y = upright
    small = quantise(task, learner, [(x[:64], y[:64])], train=["7"])
    save(small, tmp_path / "digits.term")
    steps = [emit(t, "c").load()().learner(0) for t in (small, load(tmp_path / "digits.term"))]
    losses = [[float(each.step(x[:8], y[:8])) for _ in range(3)] for each in steps]
    assert losses[0] == losses[1]


def test_a_parameter_without_influence_has_no_gradient(upright):
    """Train the weights of a layer behind which all is 0."""
    _, _, x, _, _ = upright
    model = layers.dense(NdArrayType((4,)), NdArrayType((64,)), NdArrayType((3,)), layers.identity, "one")
    task = Task(model >> layers.relu(model.target.table[0]), sgd(0.1), mse)
    arrays = {"one.weight": np.zeros((64, 3), np.float32), "one.bias": np.full(3, -1, np.float32)}
    data = [(x[:4].reshape(4, 64), np.ones((4, 3), np.float32))]
    learner = emit(quantise(task, arrays, data, train=["one"]), "numpy").load()().learner(0)
    learner.step(*data[0])
    assert all(np.array_equal(learner.parameters[name], array) for name, array in arrays.items())


def test_weights_may_grow_by_half(upright):
    _, _, x, _, _ = upright
    model = layers.dense(NdArrayType((4,)), NdArrayType((64,)), NdArrayType((3,)), layers.identity, "one")
    signs = np.sign(np.random.default_rng(0).normal(size=(64, 3))).astype(np.float32)
    arrays = {"one.weight": signs / 10, "one.bias": np.zeros(3, np.float32)}
    data = [(x[:4].reshape(4, 64), np.ones((4, 3), np.float32))]
    small = quantise(Task(model, sgd(0.1), mse), arrays, data, train=["one"])
    learner = emit(small, "numpy").load()().learner(0)
    before = np.asarray(learner.predict(data[0][0]))
    learner.parameters["one.weight"][...] *= 1.5
    np.testing.assert_allclose(learner.predict(data[0][0]), 1.5 * before, rtol=0.01)


@pytest.mark.parametrize("factor", [1e-3, 1e-8, 1e-42, 0])
@pytest.mark.parametrize("parameters", [Dtype.float32, Dtype.int8])
def test_a_bias_is_kept_beside_small_weights(factor, parameters):
    """A bias may be greater than sums of products of small weights, or than int32, in units of these."""
    rng, batch = np.random.default_rng(0), NdArrayType((8,))
    task = Task(
        layers.dense(batch, NdArrayType((3,)), NdArrayType((4,)), layers.identity, "one"), sgd(0.001), mse
    )
    weights = rng.normal(size=(3, 4)) * np.array([factor, 1, 1, 1])
    arrays = {"one.weight": weights.astype(np.float32), "one.bias": np.float32([2, -1, 0.5, 0])}
    x, y = (rng.normal(size=(8, n)).astype(np.float32) for n in (3, 4))
    small = quantise(task, arrays, [(x, y)], train=["one"], parameters=parameters)
    learner, plain = (emit(each, "numpy").load()().learner(0) for each in (small, task))
    plain.parameters.update(arrays)
    for _ in range(3):
        np.testing.assert_allclose(learner.predict(x), plain.predict(x), atol=0.05)
        np.testing.assert_allclose(learner.step(x, y), plain.step(x, y), rtol=0.05)


@pytest.mark.parametrize("parameters", [Dtype.float32, Dtype.int8])
def test_parts_of_a_parameter_train(parameters):
    """The weights of attention's queries, keys and values are one array."""
    rng = np.random.default_rng(0)

    def model(x):
        one, two = ops.split(layers.parameter("w", NdArrayType((6, 8)), Normal(0, 0.5)), (4, 4), 1)
        return (x @ one) * ops.sigmoid(x @ two)

    task = Task(build(model, [NdArrayType((8, 6))]), sgd(0.1), mse)
    plain = emit(task, "numpy").load()().learner(0)
    x, y = (rng.normal(size=(8, n)).astype(np.float32) for n in (6, 4))
    small = quantise(task, plain, [(x, y)], train=["w"], parameters=parameters)
    learner = emit(small, "numpy").load()().learner(0)
    for _ in range(5):
        np.testing.assert_allclose(learner.predict(x), plain.predict(x), atol=0.15)
        np.testing.assert_allclose(learner.step(x, y), plain.step(x, y), rtol=0.05)


REFUSED = {
    "what trains must be a parameter": {"train": ["scores"]},
    "layers must train in float32 or in int8, not both": {"keep": ["dense"]},
    "outputs that train must be float32": {"outputs": Dtype.int8},
    "data must be batches of 1 inputs and 1 targets": {"data": [np.zeros((2, 64), np.float32)]},
    "there must be batches": {"data": []},
    "there must be an array for each": {"arrays": {}},
}


@pytest.mark.parametrize("message", REFUSED)
def test_wrong_options_are_refused(message):
    batch, features = NdArrayType((2,)), NdArrayType((64,))
    task = Task(layers.dense(batch, features, NdArrayType((3,))), sgd(0.1), mse)
    learner = emit(task, "numpy").load()().learner(0)
    data = [(np.zeros((2, 64), np.float32), np.zeros((2, 3), np.float32))]
    options = {"arrays": learner, "data": data, "train": ["dense"]} | REFUSED[message]
    with pytest.raises(OptionError, match=message):
        quantise(task, **options)


def test_other_outputs_in_evaluation_are_refused():
    x = NdArrayType((2, 3))
    model = layers.dense(NdArrayType((2,)), NdArrayType((3,)), NdArrayType((4,)), layers.identity, "one")
    total = build(lambda x: ops.sum(model(x), 1), [x])
    task = Task(model, sgd(0.1), mse, inference=total)
    with pytest.raises(OptionError, match="must have the same outputs in training and in evaluation"):
        quantise(task, {}, [], train=["one"])


def test_a_module_for_autograd_is_refused(upright, tmp_path):
    """Autograd's derivative of what is rounded is 0."""
    task, learner, x, _, y = upright
    data = [(x[:64], y[:64])]
    small = quantise(task, learner, data, train=["3"])
    save(small, tmp_path / "small.json")
    for model in (small, load(tmp_path / "small.json")):
        with pytest.raises(UnsupportedOp, match="the derivative that autograd computes"):
            emit(model, "torch-module")
