"""Weights of the target ggml in f16, q8_0 and q4_0: which are stored so, their error, and their files."""

from __future__ import annotations

from ctypes import c_char_p

import gguf as package
import numpy as np
import pytest

from catgrad import Dim, NdArrayType, Task, build, layers, mse, ops, sgd
from catgrad.errors import OptionError
from catgrad.formats import gguf
from catgrad.initialisers import Normal
from catgrad.learn.entries import program
from catgrad.learn.fit import checkpoint
from catgrad.ops.contract import Contract
from catgrad.targets import get_backend
from tests.covering import some
from tests.targets import cannot, emit

pytestmark = pytest.mark.skipif(bool(cannot("ggml")), reason=f"target ggml: {cannot('ggml')}")

N, IN, HIDDEN, OUT = (NdArrayType(shape) for shape in ((Dim("n"),), (64,), (96,), (10,)))
KINDS = ("f16", "q8_0", "q4_0")
SOME = some(KINDS, ["q8_0"])
ERRORS = {"f16": 1e-3, "q8_0": 2e-2, "q4_0": 2e-1}
"""Errors of results relative to the greatest, which docs/howto/weights.md states: twice those measured."""

X = np.random.default_rng(0).normal(size=(7, 64)).astype(np.float32)


def dense() -> Task:
    """Build a network whose two matrices have rows of 64 and of 96 terms."""
    model = layers.dense(N, IN, HIDDEN, layers.tanh) >> layers.dense(N, HIDDEN, OUT, layers.identity)
    return Task(model, sgd(0.1, momentum=0.9), mse, "dense")


@pytest.fixture(scope="module", params=SOME)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def model(kind):
    return emit(dense(), "ggml", weights=kind).load()()


@pytest.fixture(scope="module")
def learner():
    learner = emit(dense()).load()().learner(0)
    learner.step(X, np.zeros((7, 10)))
    return learner


def error(found, expected):
    return np.abs(found - expected).max() / np.abs(expected).max()


def test_the_error_is_as_documented(kind, model, learner):
    [y] = model.predict(*learner.parameters.values(), X)
    found = error(y, learner.predict(X))
    assert ERRORS[kind] / 4 < found < ERRORS[kind]


def test_initial_values_are_those_of_other_targets(kind, model):
    for found, expected in zip(model.init(3), emit(dense()).load()().init(3), strict=True):
        assert error(found, expected) < ERRORS[kind]


def loaded(model, path):
    """Return a function that predicts with the weights of a file, and the model that has them."""
    tables = model.library.tables(model.program, 0)
    arrays, predict = tables["parameters"].model, model.predict.bound(tables)
    arrays.call("load", [c_char_p], str(path).encode())
    return lambda x: predict(x)[0], arrays


def test_files_of_training_are_converted(tmp_path, kind, model, learner):
    checkpoint.save(learner, tmp_path / "a.gguf")
    predict, arrays = loaded(model, tmp_path / "a.gguf")
    [y] = model.predict(*learner.parameters.values(), X)
    np.testing.assert_array_equal(predict(X), y)
    arrays.call("save", [c_char_p], str(tmp_path / "b.gguf").encode())
    again, arrays = loaded(model, tmp_path / "b.gguf")
    np.testing.assert_array_equal(again(X), y)
    arrays.call("save", [c_char_p], str(tmp_path / "c.gguf").encode())
    assert (tmp_path / "b.gguf").read_bytes() == (tmp_path / "c.gguf").read_bytes()
    tensors = {t.name: t for t in package.GGUFReader(tmp_path / "b.gguf").tensors}
    assert tensors["dense_0.weight"].tensor_type.name == kind.upper()
    assert tensors["dense_0.bias"].tensor_type.name == "F32"
    assert tensors.keys() == learner.parameters.keys()  # and no state


@pytest.mark.covering
@pytest.mark.parametrize("target", ["numpy", "ggml"])
def test_files_of_quantised_weights_are_read_for_training(tmp_path, kind, model, learner, target):
    checkpoint.save(learner, tmp_path / "a.gguf")
    _, arrays = loaded(model, tmp_path / "a.gguf")
    arrays.call("save", [c_char_p], str(tmp_path / "b.gguf").encode())
    other = emit(dense(), target).load()().learner(1)
    if target == "ggml":
        other.parameters.model.call("load", [c_char_p], str(tmp_path / "b.gguf").encode())
    else:
        checkpoint.load(other, tmp_path / "b.gguf")
    for name, array in learner.parameters.items():
        assert error(other.parameters[name], array) < ERRORS[kind]
    assert other.step(X, np.zeros((7, 10))) > 0


def products(x):
    """Compute products of all orders, of matrices that are quantised and of some that must not be."""

    def weight(name, *shape):
        return layers.parameter(name, NdArrayType(shape), Normal(0, 0.1))

    tied, v = weight("tied", 64, 64), ops.sum(x, (0,))
    return (
        x @ weight("columns", 64, 5),
        x @ ops.transpose(weight("rows", 5, 64)),
        Contract((0, 1), (2, 0), (2, 1))(weight("left", 64, 5), x),
        ops.contract(v, weight("vector", 64, 5), 1),
        Contract((0, 1), (1,), (0,))(weight("vector_left", 5, 64), v),
        Contract((0, 1), (2, 1), (0, 2))(weight("first", 5, 64), x),
        ops.tanh(x @ weight("short", 64, 40)) @ weight("forty", 40, 3),
        ops.tanh(x @ tied) @ ops.transpose(tied),
    )


def sum_of(loss):
    """Sum the losses of all products."""
    return lambda *values: sum(loss(a, b) for a, b in zip(values[:8], values[8:], strict=True))


def forms() -> Task:
    return Task(build(products, [N + IN]), sgd(0.1), sum_of(mse), "forms")


def test_products_of_all_orders():
    ours, theirs = emit(forms(), "ggml", weights="f16").load()(), emit(forms()).load()()
    p = theirs.init(1)
    for y, expected in zip(ours.predict(*p, X), theirs.predict(*p, X), strict=True):
        np.testing.assert_allclose(y, expected, atol=1e-3 * np.abs(expected).max())
    found = {s.name: a for s, a in zip(forms().parameters, ours.init(1), strict=True)}
    half = {name for name, array in found.items() if np.array_equal(array, array.astype(np.float16))}
    assert half == {"columns", "rows", "left", "vector", "vector_left", "short"}


def test_training_of_all_weights_and_other_types_are_refused():
    backend = get_backend("ggml").configured(weights="q8_0")
    with pytest.raises(
        OptionError, match="a program that trains must have frozen matrices .* but dense has none"
    ):
        backend.emit(program(dense(), backend.has))
    with pytest.raises(OptionError, match="weights must be one of f32, f16, q8_0, q4_0, but it is 'q5_0'"):
        emit(dense(), "ggml", weights="q5_0")


def test_a_transposed_array_returns_as_it_was(tmp_path):
    gguf.write(tmp_path / "a.gguf", {"w": X}, {f"{gguf.TRANSPOSED}w": "true"})
    np.testing.assert_array_equal(gguf.read(tmp_path / "a.gguf")["w"], X.T)
