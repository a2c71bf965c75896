"""The sentence of an error names what to write instead."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from catgrad import CatgradError, Dim, NdArrayType, Optimiser, Task, build, emit, layers, mse, ops
from tests.unit.command import run

A, B, C = NdArrayType((Dim("batch"),)), NdArrayType((4,)), NdArrayType((3,))
MODEL = layers.dense(A, B, C)
ARRAY = np.ones((100, 4))


def by(put):
    """Emit a task with an optimiser of one's own."""
    return lambda: emit(Task(MODEL, Optimiser("mine", put), mse))


MISTAKES = {
    "the name of an activation": (
        lambda: layers.dense(A, B, C, activation="relu"),
        "dense: the argument activation must be a layer without parameters, but it is 'relu'; "
        "write activation=layers.relu",
    ),
    "an unknown name of an activation": (
        lambda: layers.gated(A, B, 8, activation="rleu"),
        "write activation=layers.relu",
    ),
    "an operation as an activation": (
        lambda: layers.dense(A, B, C, activation=ops.relu),
        "write activation=layers.pointwise(...)",
    ),
    "a function of NumPy as an activation": (
        lambda: layers.dense(A, B, C, activation=np.tanh),
        "write activation=layers.pointwise(...)",
    ),
    "sizes of a dense layer": (
        lambda: layers.dense(4, 8, 3),
        'dense: the argument A must be an array type, but it is 4; write NdArrayType((Dim("batch"),)) for '
        "the batch axes, then the types of the features, NdArrayType((4,))",
    ),
    "a size of features": (
        lambda: layers.linear(A, 4, C),
        "linear: the argument B must be an array type, but it is 4; write NdArrayType((4,))",
    ),
    "a shape of an image": (lambda: layers.conv((1, 8, 8), 4, 3), "write NdArrayType((1, 8, 8))"),
    "a size for an activation": (lambda: layers.relu(4), "write NdArrayType((4,))"),
    "a list of layers": (lambda: layers.sequential([MODEL, MODEL]), "write sequential(first, second)"),
    "a layer without its type": (
        lambda: layers.sequential(MODEL, layers.relu),
        "or the types of a layer, such as layers.relu(x)",
    ),
    "an activation in a residual layer": (lambda: layers.residual(layers.relu), "layers.relu(x)"),
    "an activation after a layer": (lambda: MODEL >> layers.relu, "layers.relu(x)"),
    "a function after a layer": (lambda: MODEL >> (lambda x: x), "build(function, types)"),
    "a number as a shape": (lambda: NdArrayType(4), "write NdArrayType((4,))"),
    "an optimiser without a run": (by(lambda p, dp: [p - 0.1 * dp]), "write put(run, p, dp)"),
    "an optimiser that returns a variable": (by(lambda run, p, dp: p - 0.1 * dp), "return [p]"),
    "an optimiser that returns nothing": (by(lambda run, p, dp: None), "return [p]"),
    "an optimiser that returns a number": (by(lambda run, p, dp: [0.1]), "return [p]"),
    "the name of an optimiser's put": (by("sgd"), "write put(run, p, dp)"),
    "an array for an operation": (
        lambda: ops.sin(ARRAY),
        "Sin must be applied to variables, inside a function that is being built, but it is applied to an "
        "array float64[100,4]; write build(function, types), or ops.array(values) for a constant",
    ),
    "an array for a reduction": (lambda: ops.mean(ARRAY), "mean must be applied to variables"),
    "an array by its name": (lambda: ops.mean(x=ARRAY), "mean must be applied to variables"),
    "a list of arrays": (lambda: ops.concat([ARRAY, ARRAY]), "to [an array float64[100,4], an array"),
    "a list for an operation": (lambda: ops.softmax([1.0, 2.0]), "ops.array(values)"),
    "an array beside a variable": (
        lambda: build(lambda x: ops.add(x, np.ones(3)), [C]),
        "write ops.array(values) for a constant",
    ),
    "an array added to a variable": (lambda: build(lambda x: x + np.ones(3), [C]), "write ops.array(values)"),
    "an array before a variable": (lambda: build(lambda x: np.ones(3) - x, [C]), "write ops.array(values)"),
    "an array as a result": (lambda: build(lambda x: np.ones(3), [C]), "write ops.array(values)"),
    "an array of other numbers for a term": (lambda: MODEL(ARRAY), "use astype"),
    "a model in place of a task": (lambda: emit(MODEL), "write Task(model, sgd(0.01), mse)"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_an_error_names_what_to_write(name):
    mistake, sentence = MISTAKES[name]
    with pytest.raises(CatgradError) as caught:
        mistake()
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


NET = """\
from catgrad import Dim, NdArrayType, Task, layers, mse, sgd

A, B, C = NdArrayType((Dim("batch"),)), NdArrayType((4,)), NdArrayType((3,))
model = layers.dense(A, B, C)
task = Task(model, sgd(0.1), mse)
"""

REFERENCES = {
    "net:nothing": "must be one of model, task, but it is 'nothing'; write for example net:task",
    "net:tsak": "but it is 'tsak'; did you mean 'task'? write for example net:task",
    "net.py:modle": "did you mean 'model'? write for example net.py:task",
    "net.py": "write for example net:task",
    "net": "write for example net:task",
    "net.task": "write for example net:task",
    "net/task": "write for example net:task",
}


@pytest.fixture
def net(tmp_path, monkeypatch):
    """Write a file with a model into a folder that modules are imported from; return the folder."""
    (tmp_path / "net.py").write_text(NET)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "net", raising=False)  # of another test in this process
    yield tmp_path
    sys.modules.pop("net", None)


@pytest.mark.parametrize("reference", REFERENCES)
def test_a_wrong_reference_to_a_model_names_a_right_one(reference, net):
    done = run("emit", reference, folder=net)
    assert done.returncode == 2
    assert REFERENCES[reference] in done.stderr


def test_a_file_is_as_good_as_its_module(net):
    for reference in ("net:task", "net.py:task"):
        assert run("emit", reference, folder=net).returncode == 0
