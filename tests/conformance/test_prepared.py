"""Predictions with packed weights have the bits of plain ones, for all layouts and sizes of batches."""

from __future__ import annotations

import json

import numpy as np
import pytest

from catgrad import Dim, Dtype, NdArrayType, Task, build, layers, mse, ops, optimisers
from catgrad.initialisers import Normal
from catgrad.learn.losses import cross_entropy
from catgrad.quantisation import quantise
from examples.char_gpt import gpt
from tests.covering import some
from tests.targets import emit
from tests.unit.c.build import NEEDS_C

pytestmark = NEEDS_C
N, CLASSES, SEED = Dim("batch"), 140, 0
SIZES = (1, 7, 64, 250)


def dense(dtype=Dtype.float32, rows=N):
    batch, *sizes = (NdArrayType((n,), dtype) for n in (rows, 300, 150, 33))
    first = layers.dense(batch, sizes[0], sizes[1], layers.tanh, name="first")
    last = layers.linear(batch, sizes[1], sizes[2], name="last")
    return Task(first >> last, optimisers.sgd(0.1), mse, "net")


def classifier(model, *labels):
    return Task(model, optimisers.sgd(0.1), cross_entropy, "net", (NdArrayType((N, *labels), Dtype.int64),))


def convolution():
    image, pooled = NdArrayType((N, 8, 12, 12)), NdArrayType((N, 8, 6, 6))
    features, classes = NdArrayType((288,)), NdArrayType((CLASSES,))
    return classifier(
        layers.sequential(
            layers.conv(NdArrayType((N, 2, 12, 12)), 8, 3, 1, 1, name="filters"),
            layers.max_pool(image, 2),
            layers.flatten(pooled),
            layers.linear(NdArrayType((N,)), features, classes, name="head"),
        )
    )


def transformer():
    return classifier(gpt(CLASSES, N, depth=1, width=64, heads=4, context=16), 16)


def tied():
    """Multiply by a matrix and by its transpose: the same parameter, packed for each."""

    def forward(x):
        weight = layers.parameter("weight", NdArrayType((200, 140)), Normal())
        return ops.tanh(x @ weight) @ ops.transpose(weight)

    return Task(build(forward, [NdArrayType((N, 200))]), optimisers.sgd(0.1), mse, "net")


MODELS = {
    "dense": (dense, SIZES),
    "double": (lambda: dense(Dtype.float64), SIZES),
    "fixed": (lambda: dense(rows=64), (64,)),
    "tied": (tied, SIZES),
    "convolution": (convolution, (1, 5)),
    "transformer": (transformer, (1, 9)),
}


def inputs(model, n):
    [type] = model.source.table
    rng, shape = np.random.default_rng(n), (n, *type.shape[1:])
    whole = type.dtype is Dtype.int64
    return rng.integers(0, CLASSES, shape) if whole else rng.normal(size=shape).astype(type.dtype.numpy)


@pytest.mark.covering
@pytest.mark.parametrize("openmp", [False, True])
@pytest.mark.parametrize("name", some(MODELS, ("dense", "tied", "convolution", "transformer")))
def test_packed_weights_give_the_same_bits(name, openmp):
    task, sizes = MODELS[name][0](), MODELS[name][1]
    learner = emit(task, "c", openmp=openmp).load()().learner(SEED)
    predict = learner.prepared()
    for n in sizes:
        x = inputs(task.model, n)
        np.testing.assert_array_equal(predict(x), learner.predict(x))


def packed(artifact):
    """List the names of the weights that are packed."""
    manifest = json.loads(artifact.files["manifest.json"])
    return [weight["name"] for weight in manifest.get("prepared", ())]


def eight_bits(rows=N, **options):
    """Quantise the dense model with weights of its first initial values."""
    task = dense(rows=rows)
    learner, rng = emit(task, "numpy").load()().learner(SEED), np.random.default_rng(0)
    count = rows if isinstance(rows, int) else 32
    batches = [[rng.normal(size=(count, n)).astype(np.float32) for n in (300, 33)] for _ in range(3)]
    data = batches if "train" in options else [x for x, _ in batches]
    return quantise(task, learner.parameters, data, **options)


PREDICT = ("predict", "predict_prepared")
PARTLY = {
    "kept": ({"keep": ["last"]}, ["first.weight", "last.weight"]),
    "trained": ({"train": ["last"]}, ["first.weight"]),
    "stored": ({"train": ["last"], "parameters": Dtype.int8}, ["first.weight", "last.weight"]),
}
"""Quantised models with parameters, and the weights that are packed: floats are rounded first."""


@pytest.mark.parametrize("openmp", [False, True])
def test_packed_int8_weights_give_the_bits_of_numpy(openmp):
    small = eight_bits()
    artifact = emit(small, "c", functions=PREDICT, openmp=openmp)
    assert packed(artifact) == ["first.weight", "last.weight"]
    model = artifact.load()()
    reference, buffers = emit(small, "numpy", functions=["predict"]).load()(), model.init_buffers()
    for n in SIZES:
        x = inputs(small.model, n)
        [expected] = reference.predict(*buffers, x)
        np.testing.assert_array_equal(model.predict_prepared(*buffers, x)[0], expected)


@pytest.mark.parametrize("name", PARTLY)
def test_packed_int8_weights_beside_parameters_give_the_same_bits(name):
    options, expected = PARTLY[name]
    small = eight_bits(**options)
    artifact = emit(small, "c")
    assert packed(artifact) == expected
    learner = artifact.load()().learner(SEED)
    for n in SIZES:
        x = inputs(small.model, n)
        learner.step(x, np.ones((n, 33), np.float32))
        np.testing.assert_array_equal(learner.prepared()(x), learner.predict(x))


def test_int8_weights_are_not_packed_for_one_row():
    assert packed(emit(eight_bits(rows=1), "c", functions=PREDICT)) == []
    assert packed(emit(eight_bits(rows=8), "c", functions=PREDICT)) == ["first.weight", "last.weight"]


def test_weights_of_dense_layers_are_packed():
    assert packed(emit(dense(), "c")) == ["first.weight", "last.weight"]


def test_windows_of_images_are_not_packed():
    assert packed(emit(convolution(), "c")) == ["3.head.weight"]


def test_a_matrix_is_packed_for_each_direction_in_which_it_is_read():
    assert packed(emit(tied(), "c")) == ["weight", "weight"]


def test_models_without_products_of_weights_have_predictions_too():
    x = NdArrayType((N, 3))
    task = Task(layers.batch_norm(x), optimisers.sgd(0.1), mse, "net")
    learner = emit(task, "c").load()().learner(SEED)
    given = inputs(task.model, 2)
    np.testing.assert_array_equal(learner.prepared()(given), learner.predict(given))


def test_prepared_predictions_are_of_the_parameters_at_that_time():
    task = dense()
    learner = emit(task, "c").load()().learner(SEED)
    x, y = inputs(task.model, 7), np.ones((7, 33), np.float32)
    predict, before = learner.prepared(), learner.predict(x)
    learner.step(x, y)
    np.testing.assert_array_equal(predict(x), before)
    assert not np.array_equal(learner.predict(x), before)
    np.testing.assert_array_equal(learner.prepared()(x), learner.predict(x))
