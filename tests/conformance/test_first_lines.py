"""First lines that a user of PyTorch types: the sentence about each wrong one names the right one."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from catgrad import CatgradError, Dim, NdArrayType, Task, fit, layers, losses, mse, ops, optimisers, sgd
from catgrad.learn.fit import checkpoint
from tests.targets import emit, on

A, B, C = NdArrayType((Dim("batch"),)), NdArrayType((4,)), NdArrayType((3,))
X, Y = np.ones((5, 4), np.float32), np.ones((5, 3), np.float32)
TASK = Task(layers.dense(A, B, C), sgd(0.1), mse)
STAR = "with a star before a list of arrays"


@cache
def made(target):
    """Load the task on a target."""
    return emit(TASK, target).load()()


ANYWHERE = {
    "sizes of a layer": (lambda: layers.linear(4, 3), 'NdArrayType((Dim("batch"),))'),
    "a layer without outputs": (
        lambda: layers.linear(A, B),
        "it must be called as linear(A, B, C, name, initial), but it is not",
    ),
    "an option of PyTorch's layer": (lambda: layers.linear(A, B, C, bias=False), "argument 'bias'"),
    "sizes of a convolution": (lambda: layers.conv(3, 8, 3), "the argument x must be an array type"),
    "PyTorch's name of a layer": (lambda: layers.Linear, "did you mean 'linear'?"),
    "PyTorch's name of a norm": (lambda: layers.LayerNorm, "did you mean 'layer_norm'?"),
    "PyTorch's name of an optimiser": (lambda: optimisers.AdamW, "did you mean 'adamw'?"),
    "PyTorch's name of a loss": (lambda: losses.CrossEntropyLoss, "did you mean 'cross_entropy'?"),
    "PyTorch's name of an operation": (lambda: ops.log_softmx, "did you mean 'log_softmax'?"),
    "parameters for an optimiser": (lambda: sgd([X], 0.1), "a learning rate must be a finite number"),
    "a target's library": (lambda: emit(TASK, "pytorch"), "did you mean 'torch'?"),
    "a task to fit": (lambda: fit(TASK, (X, Y), epochs=1), "call CompiledModel().learner(seed=0)"),
    "a path before the learner": (
        lambda: checkpoint.save("run.safetensors", TASK),
        "a learner, which comes before the path",
    ),
    "a checkpoint's path before the learner": (
        lambda: checkpoint.load("run.safetensors", TASK),
        "a learner, which comes before the path",
    ),
}

WITH_A_LEARNER = {
    "a step without targets": (lambda net, l: l.step(X), "step must get 2 arrays, but it got 1; pass x, y"),
    "a step on a pair": (lambda net, l: l.step((X, Y)), STAR),
    "a step with a rate": (lambda net, l: l.step(X, Y, 0.1), "step must get 2 arrays, but it got 3"),
    "a prediction of nothing": (lambda net, l: l.predict(), "arrays, but it got 0; pass x"),
    "a prediction with targets": (lambda net, l: l.predict(X, Y), "arrays, but it got 2; pass x"),
    "PyTorch's name of a weight": (lambda net, l: l.parameters["weight"], "did you mean 'dense.weight'?"),
    "a module's prefix": (lambda net, l: l.parameters["0.weight"], "did you mean 'dense.weight'?"),
    "parameters without a star": (lambda net, l: net.step(net.init(0), X, Y), STAR),
    "a table for its arrays": (lambda net, l: net.predict(l.parameters, X), STAR),
    "a function without parameters": (lambda net, l: net.predict(X), "pass dense.weight, dense.bias, x"),
    "a list in an array's place": (
        lambda net, l: net.predict(*net.init(0), [X, Y]),
        "star before",
    ),
    "gradients as a list": (lambda net, l: l.update([X]), "gradients must be arrays by name"),
    "gradients of other names": (
        lambda net, l: l.update({"dense.weigth": X, "dense.bias": Y}),
        "did you mean 'dense.weight'?",
    ),
    "gradients of a part": (lambda net, l: l.update({"dense.weight": X}), "an array dense.bias"),
    "labels for one-hot rows": (lambda net, l: l.step(X, np.zeros(5, int)), "make labels one-hot"),
}


@pytest.mark.parametrize("line", ANYWHERE)
def test_a_wrong_first_line_names_the_right_one(line):
    wrong, sentence = ANYWHERE[line]
    with pytest.raises((CatgradError, AttributeError)) as caught:
        wrong()
    assert sentence in str(caught.value)


@on("numpy", "torch", "jax", "c", "cuda", "onnx", "javascript")
@pytest.mark.parametrize("line", WITH_A_LEARNER)
def test_a_wrong_line_with_a_learner_names_the_right_one(target, line):
    wrong, sentence = WITH_A_LEARNER[line]
    net = made(target)
    with pytest.raises((TypeError, ValueError, KeyError)) as caught:
        wrong(net, net.learner(0))
    assert sentence in str(caught.value.args[0])
