"""Small models that several tests compile, and the same in PyTorch."""

from __future__ import annotations

import numpy as np

from catgrad import Dim, Dtype, NdArrayType, Task, build, layers, mse, obj, ops, sgd

BATCH, INPUT, HIDDEN, OUTPUT = (
    NdArrayType((Dim("batch"),)),
    NdArrayType((4,)),
    NdArrayType((5,)),
    NdArrayType((3,)),
)


def in_dtype(*types: NdArrayType, dtype: Dtype) -> tuple[NdArrayType, ...]:
    return tuple(NdArrayType(t.shape, dtype) for t in types)


def mlp(optimiser=None, dtype: Dtype = Dtype.float32, batch: NdArrayType = BATCH) -> Task:
    """Dense 4-5-3 with sigmoid, then tanh."""
    N, I, H, O = in_dtype(batch, INPUT, HIDDEN, OUTPUT, dtype=dtype)
    model = layers.dense(N, I, H) >> layers.dense(N, H, O, activation=layers.tanh)
    return Task(model, optimiser or sgd(0.1), mse, "mlp")


def rectified() -> Task:
    """linear, relu, linear by numbers, with a bias between."""
    H = BATCH + HIDDEN
    model = layers.sequential(
        layers.linear(BATCH, INPUT, HIDDEN, name=""),
        layers.bias(BATCH, HIDDEN),
        layers.relu(obj(H)),
        layers.linear(BATCH, HIDDEN, OUTPUT, name=""),
    )
    return Task(model, sgd(0.05, momentum=0.9), mse, "rectified")


def two_inputs() -> Task:
    """Two inputs and two outputs, one weight used twice."""

    def forward(x, z):
        w = layers.parameter("weight", INPUT + OUTPUT)
        return ops.tanh(x @ w), ops.exp(ops.square(z) @ w)

    def loss(a, b, y, z):
        return mse(a, y) + mse(b, z)

    return Task(build(forward, [BATCH + INPUT, BATCH + INPUT]), sgd(0.1), loss, "two_inputs")


TASKS = {"mlp": mlp, "rectified": rectified, "two_inputs": two_inputs}


def arguments(task: Task, function: str, sizes: dict[str, int], seed: int = 0) -> list[np.ndarray]:
    """Draw arguments for a function of a task."""
    rng = np.random.default_rng(seed)
    types = [t.substitute(sizes) for t in task.term(function).source.table]
    return [rng.normal(size=t.shape).astype(t.dtype.numpy) for t in types]
