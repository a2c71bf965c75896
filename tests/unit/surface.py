"""A user's program that takes every public name; test_typing.py checks its types, and runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

import catgrad
from catgrad import (
    Artifact,
    CatgradError,
    Compiled,
    Dim,
    Dtype,
    Functions,
    Learner,
    NdArrayType,
    Optimiser,
    Task,
    Term,
    Terms,
    Var,
    accuracy,
    build,
    compile_model,
    compile_module,
    copy,
    data,
    digest,
    discard,
    emit,
    evaluate,
    fit,
    from_onnx,
    from_torch,
    identity,
    layers,
    load,
    losses,
    mixed_precision,
    mse,
    obj,
    ops,
    optimisers,
    permutation,
    save,
    schedules,
    sgd,
    shared_rows,
    trace,
    verify,
)
from catgrad.learn.optimiser import Run

A, B, C = NdArrayType((Dim("batch"),)), NdArrayType((4,)), NdArrayType((8,))
X, Y = A + B, A + C
IMAGE = NdArrayType((Dim("batch"), 4, 8, 8))
SEQUENCE = NdArrayType((Dim("batch"), 5))

Activation = Callable[[NdArrayType], Term]

ACTIVATIONS: Sequence[Activation] = (
    layers.elu, layers.gelu, layers.identity, layers.leaky_relu, layers.log_softmax, layers.relu,
    layers.sigmoid, layers.silu, layers.softmax, layers.softplus, layers.tanh, layers.pointwise(ops.square),
)  # fmt: skip


def twice(x: Var) -> Var:
    """Apply one layer twice, with one set of parameters."""
    layer = layers.shared(layers.linear(A, B, B))
    y: Var = layer(layer(x))
    return y


FLAT: Sequence[Term] = (
    layers.linear(A, B, C), layers.dense(A, B, C, activation=layers.relu), layers.lora(A, B, C, 2, 1.0),
    layers.bilinear(A, B, B, C),
    layers.embedding(NdArrayType((Dim("batch"),), Dtype.int64), 10, C), layers.bias(A, B), layers.dropout(X),
    layers.batch_norm(X), layers.layer_norm(A, B), layers.rms_norm(A, B), layers.group_norm(X, 2),
    layers.gated(A, B, 8), layers.geglu(A, B, 8), layers.swiglu(A, B, 8),
    layers.residual(layers.linear(A, B, B)), layers.checkpointed(layers.dense(A, B, C)),
    layers.named("body", layers.sequential(layers.linear(A, B, C), layers.relu(Y))),
    build(twice, [X]),
)  # fmt: skip

SPATIAL: Sequence[Term] = (
    layers.conv(IMAGE, 6, 3, padding=1),
    layers.conv_transpose(IMAGE, 6, 3),
    layers.avg_pool(IMAGE, 2),
    layers.max_pool(IMAGE, (2, 2)),
    layers.adaptive_avg_pool(IMAGE, 4),
    layers.adaptive_max_pool(IMAGE, 4),
    layers.global_avg_pool(IMAGE),
    layers.upsample_nearest(IMAGE, 2),
    layers.flatten(IMAGE),
)

SEQUENTIAL: Sequence[Term] = (
    layers.attention(SEQUENCE, C, 2, causal=True),
    layers.transformer_block(SEQUENCE, C, 2),
    layers.position_embedding(A + NdArrayType((1,)), C, 9),
    layers.lstm(SEQUENCE, B, C),
    layers.gru(SEQUENCE, B, C),
    layers.rnn(SEQUENCE, B, C, activation=layers.relu, lengths=True),
)


def put(run: Run, p: Var, dp: Var) -> list[Var]:
    """Return the parameter, moved against its gradient."""
    return [p - 0.1 * dp]


OPTIMISERS: Sequence[Optimiser] = (
    sgd(0.1, momentum=0.9), layers.sgd(0.1), optimisers.sgd(schedules.cosine(0.1, 100)),
    optimisers.adadelta(), optimisers.adafactor(), optimisers.adagrad(), optimisers.adam(),
    optimisers.adamax(), optimisers.adamw(1e-3), optimisers.asgd(), optimisers.clipped(sgd(0.1), 1.0),
    optimisers.ema(sgd(0.1), 0.9),
    optimisers.frozen(), optimisers.grouped(lambda slot: sgd(0.1)), optimisers.lion(), optimisers.muon(),
    optimisers.nadam(), optimisers.radam(), optimisers.rmsprop(), optimisers.rprop(),
    optimisers.sliced(sgd(0.1), 0, 2), optimisers.Optimiser("plain", put),
)  # fmt: skip

SCHEDULES: Sequence[schedules.Schedule] = (
    schedules.adjustable(0.1), schedules.cosine(0.1, 9), schedules.cosine_with_restarts(0.1, 9),
    schedules.cyclic(0.1, 0.2), schedules.exponential_decay(0.1, 0.9), schedules.linear(0.1),
    schedules.multi_step_decay(0.1, [3, 5]), schedules.one_cycle(0.1, 9), schedules.polynomial(0.1),
    schedules.step_decay(0.1, 3), schedules.interpolated([(0, 0.0), (9, 0.1)]),
    schedules.Schedule("half", lambda step: 0.5 / (1.0 + step)),
)  # fmt: skip

LOSSES: Sequence[Callable[[Var, Var], Var]] = (
    mse, layers.mse, losses.mse, losses.l1, losses.huber, losses.bce_with_logits, losses.kl_div, losses.nll,
    losses.cross_entropy,
)  # fmt: skip


def gate(x: Var) -> Var:
    """Scale by a parameter, and count the calls."""
    weight = layers.parameter("gate.weight", B)
    count = layers.buffer("gate.count", NdArrayType(()))
    layers.update("gate.count", count + 1.0)
    open: Var = layers.label("open", ops.sigmoid(x * ops.broadcast(weight, x.shape)))
    return x * open


def every(x: Var) -> Var:
    """Return a number of the operations on one array."""
    y: Var = ops.exp(ops.sin(x)) + ops.maximum(x, ops.zeros_like(x)) - ops.softmax(x)
    low, high = ops.split(y, [2, 2], axis=1)
    top, _ = ops.top_k(ops.concat([low, high], axis=1), 2)
    whole: Var = ops.cast(top > 0, Dtype.float32)
    average: Var = ops.mean(whole, axes=1)
    return average


def wires() -> Term:
    """Compose terms by hand."""
    swap = permutation([X, X], [1, 0])
    return copy(X) >> swap >> (identity(X) @ discard(X)) >> build(gate, [X])


def main() -> None:
    """Compile, train, evaluate and verify."""
    model: Term = wires() >> FLAT[1]
    task = Task(model, OPTIMISERS[0], mse, name="surface")
    artifact: Artifact = emit(task, functions=("predict", "step", "loss"))
    paths: Sequence[Path] = artifact.write("out")
    assert paths and artifact.source
    x = np.ones((3, 4), np.float32)
    y = np.zeros((3, 8), np.float32)
    compiled = artifact.load()()
    learner: Learner = compiled.learner(seed=0)
    history = fit(learner, (x, y), steps=2, batch_size=3, seed=0)
    assert len(history.losses) == 2
    assert trace(task, x, y).first_nan is None and data.standardise(x)(x).shape == (3, 4)
    assert 0 <= accuracy(learner.predict(x), y) <= 1
    assert evaluate(learner, (x, y))["loss"] >= 0
    Class, _, source = compile_model(model, sgd(0.1), mse)
    assert "def step(" in source and Class().init(seed=0)
    result: Compiled = compile_model(model, sgd(0.1), mse)
    assert result.ParamType
    functions = Functions({"every": build(every, [X])})
    assert "def every(" in emit(functions).source
    assert "bfloat16" in emit(mixed_precision(task)).source
    assert "def step(" in emit(shared_rows(task)).source
    assert len(obj(X, Y)) == 2
    save(task, "surface.catgrad.json")
    loaded = load("surface.catgrad.json")
    assert isinstance(loaded, Terms)
    assert digest(loaded) == digest(task)
    report: str = catgrad.__version__
    assert report and all(map(callable, (verify, compile_module, from_onnx, from_torch)))
    try:
        emit(task, "fortran")
    except CatgradError as error:
        print(f"{error.must}: {error.found}, {error.do}")


if __name__ == "__main__":
    main()
