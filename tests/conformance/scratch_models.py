"""Small tasks in float64 for sprites: every kind of model, optimiser and schedule."""

from __future__ import annotations

from functools import partial

import numpy as np

from catgrad import Dim, Dtype, NdArrayType, Task, build, layers, losses, mse, ops, optimisers, schedules, sgd
from catgrad.initialisers import Normal

N = Dim("batch")


def f64(*shape):
    return NdArrayType(shape, Dtype.float64)


WORDS = NdArrayType((N, 3), Dtype.int64)
CLASSES = (NdArrayType((N,), Dtype.int64),)


def mlp(optimiser=None, loss=mse, labels=None):
    """4-5-3."""
    model = layers.sequential(
        layers.dense(f64(N), f64(4), f64(5), layers.tanh, name="hidden"),
        layers.dense(f64(N), f64(5), f64(3), layers.sigmoid, name="last"),
    )
    return Task(model, optimiser or sgd(0.3), loss, "mlp", labels)


def classifier():
    model = layers.sequential(
        layers.dense(f64(N), f64(4), f64(5), layers.relu, name=""),
        layers.rms_norm(f64(N), f64(5), name=""),
        layers.dense(f64(N), f64(5), f64(3), layers.identity, name=""),
    )
    return Task(model, optimisers.adamw(0.05), losses.cross_entropy, "classifier", CLASSES)


def cnn():
    model = layers.sequential(
        layers.conv(f64(N, 1, 6, 6), 2, 3, 1, 1, name=""),
        layers.relu([f64(N, 2, 6, 6)]),
        layers.max_pool(f64(N, 2, 6, 6), 2),
        layers.flatten(f64(N, 2, 3, 3)),
        layers.dense(f64(N), f64(18), f64(3), layers.identity, name=""),
    )
    return Task(model, sgd(0.1, 0.9), losses.cross_entropy, "cnn", CLASSES)


def normalised():
    """Batch norm, whose statistics are buffers."""
    model = layers.sequential(
        layers.conv(f64(N, 1, 4, 4), 2, 3, bias=False, name=""),
        layers.batch_norm(f64(N, 2, 2, 2), 0.3),
        layers.silu([f64(N, 2, 2, 2)]),
        layers.flatten(f64(N, 2, 2, 2)),
    )
    return Task(model, optimisers.rmsprop(0.01), mse, "normalised")


def recurrent(layer, name):
    """The mean of the outputs of an LSTM or a GRU over four iterations."""
    model = layers.sequential(
        layer(f64(N, 4), f64(3), f64(3), name=""),
        build(lambda h: ops.mean(h, 1), [f64(N, 4, 3)]),
        layers.dense(f64(N), f64(3), f64(2), layers.identity, name=""),
    )
    return Task(model, optimisers.adam(0.05), losses.huber, name)


def attention():
    return Task(layers.attention(f64(N, 3), f64(4), 2, causal=True), sgd(0.1), mse, "attention")


def bigrams():
    """A bigram model: scores of the next word, from the current one."""
    model = layers.embedding(WORDS, 5, f64(4), name="") >> layers.linear(f64(N, 3), f64(4), f64(5), name="")
    return Task(model, sgd(0.5), losses.cross_entropy, "bigrams", (WORDS,))


def words():
    """A language model of one block."""
    A, B = f64(N, 3), f64(4)
    model = layers.sequential(
        layers.embedding(WORDS, 5, B, name="tokens"),
        layers.transformer_block(A, B, 2, 8, causal=True, name="block"),
        layers.layer_norm(A, B, name="norm"),
        layers.linear(A, B, f64(5), name="head"),
    )
    return Task(model, sgd(0.5), losses.cross_entropy, "words", (WORDS,))


def factors():
    """A product of two parameters, whose gradients each read the other."""

    def scaled(x):
        a, b = layers.parameter("a", f64(1, 2), Normal()), layers.parameter("b", f64(2, 1), Normal())
        return x * ops.broadcast(ops.reshape(a @ b), (N,))

    return Task(build(scaled, [f64(N)]), sgd(0.1), mse, "factors")


def two_of_each():
    """Two inputs and two outputs, of which one is a number for each example."""

    def forward(x, z):
        w = layers.parameter("w", f64(4, 3), Normal())
        return ops.tanh(x @ w), ops.sum(ops.square(z) @ w, 1)

    model = build(forward, [f64(N, 4), f64(N, 4)])
    return Task(model, sgd(0.1), lambda a, b, y, z: mse(a, y) + mse(b, z), "two_of_each")


def weight(name, *shape):
    return layers.parameter(name, f64(*shape), Normal())


def far(*outputs_and_targets):
    """The sum of squares of all differences, also of integers and booleans."""
    count = len(outputs_and_targets) // 2
    pairs = zip(outputs_and_targets[:count], outputs_and_targets[count:], strict=True)
    return sum(ops.sum(ops.square(ops.cast(y, Dtype.float64) - ops.cast(t, Dtype.float64))) for y, t in pairs)


def odd(function, *types):
    """A task whose outputs may be of any type, trained with targets of these types."""
    model = build(function, list(types))
    return Task(model, sgd(0.1), far, "odd", tuple(model.target.table))


ODD = {
    "an output that is an input": lambda: odd(lambda x: (x, x * weight("w", 2, 3), x), f64(2, 3)),
    "the same output twice": lambda: odd(lambda x: [x * weight("w", 3)] * 2, f64(3)),
    "a number as input": lambda: odd(lambda x: ops.broadcast(x, (2,)) * weight("w", 2), f64()),
    "a number as output": lambda: odd(lambda x: ops.sum(x * weight("w", 3)), f64(3)),
    "numbers alone": lambda: odd(lambda x: x * weight("w"), f64()),
    "an empty input": lambda: odd(lambda x, y: (y * weight("w", 3), x), f64(0, 3), f64(3)),
    "an empty parameter": lambda: odd(lambda x: (x * weight("w", 3), weight("e", 0, 2)), f64(3)),
    "an output that is a parameter": lambda: odd(lambda x: (x * weight("w", 3), weight("v", 3)), f64(3)),
    "truth values": lambda: odd(
        lambda b, x: (ops.select(b, x * weight("w", 3), -x), x > 0), NdArrayType((3,), Dtype.bool), f64(3)
    ),
    "whole numbers": lambda: odd(
        lambda i, x: (x * ops.broadcast(ops.cast(i, Dtype.float64), (3,)) * weight("w", 3), ops.argmax(x)),
        NdArrayType((), Dtype.int64),
        f64(3),
    ),
}
"""Inputs, outputs and parameters that are scalars, empty, or the same array."""

MODELS = {
    "mlp": mlp, "classifier": classifier, "cnn": cnn, "normalised": normalised,
    "lstm": partial(recurrent, layers.lstm, "lstm"), "gru": partial(recurrent, layers.gru, "gru"),
    "attention": attention, "bigrams": bigrams, "words": words, "two_of_each": two_of_each,
    "factors": factors,
}  # fmt: skip

OPTIMISERS = {
    "sgd with decay": sgd(0.1, weight_decay=0.1),
    "momentum": sgd(0.1, 0.9, dampening=0.3),
    "nesterov": sgd(0.1, 0.9, nesterov=True),
    "adam": optimisers.adam(0.05, weight_decay=0.1),
    "amsgrad": optimisers.adamw(0.05, amsgrad=True),
    "adamw": optimisers.adamw(0.05),
    "rmsprop": optimisers.rmsprop(0.01, momentum=0.5, centred=True),
    "adagrad": optimisers.adagrad(0.1),
    "nadam": optimisers.nadam(0.05, decoupled_weight_decay=True, weight_decay=0.1),
    "radam": optimisers.radam(0.05, 0.9, 0.9),
    "rprop": optimisers.rprop(maximize=True),
    "adafactor": optimisers.adafactor(0.1, weight_decay=0.1),
    "lion": optimisers.lion(0.01, weight_decay=0.5),
    "muon": optimisers.muon(0.1, 0.9, 0.2),
    "clipped": optimisers.clipped(sgd(0.5, 0.9), 0.05),
    "groups": optimisers.grouped(
        lambda p: optimisers.frozen() if p.name == "hidden.bias" else optimisers.adamw(0.1 * p.type.rank)
    ),
    "step decay": sgd(schedules.step_decay(0.3, 2, 0.5)),
    "exponential decay": sgd(schedules.exponential_decay(0.3, 0.9)),
    "cosine": sgd(schedules.cosine(0.3, 5, warm_up=1, least=0.1)),
    "one cycle": sgd(schedules.one_cycle(0.3, 5)),
    "restarts": sgd(schedules.cosine_with_restarts(0.3, 1, 2)),
    "triangles": sgd(schedules.cyclic(0.1, 0.3, 1, 2, "triangular2")),
}


def examples(task, batch, seed):
    """Draw inputs and targets of a task; integers are labels of three classes."""
    rng = np.random.default_rng(seed)
    types = [t.substitute({"batch": batch}) for t in (*task.inputs, *task.targets)]
    drawn = [rng.normal(size=t.shape) if t.dtype.is_floating else rng.integers(0, 3, t.shape) for t in types]
    return [np.asarray(array).astype(t.dtype.numpy) for array, t in zip(drawn, types, strict=True)]
