"""Whole training steps against PyTorch's autograd and optimisers."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from catgrad import Dim, Dtype, NdArrayType, Task, build, layers, losses, ops, optimisers, sgd
from catgrad.functors import reverse
from catgrad.programs.program import evaluate
from catgrad.targets import get_backend
from catgrad.testing import run_on
from tests.models import mlp
from tests.targets import emit, on_all_targets, on_all_targets_with, on_targets

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")


F = torch.nn.functional


def twin(parameters):
    """Build the network `mlp` in PyTorch, on copies of the parameters."""
    tensors = {name: torch.tensor(np.array(a)).requires_grad_() for name, a in parameters.items()}

    def forward(x):
        h = torch.sigmoid(x @ tensors["dense_0.weight"] + tensors["dense_0.bias"])
        return torch.tanh(h @ tensors["dense_1.weight"] + tensors["dense_1.bias"])

    return tensors, forward


@pytest.mark.covering
@on_all_targets_with("learner")
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize(("dtype", "tolerance"), [(Dtype.float32, 1e-5), (Dtype.float64, 1e-10)])
def test_steps_agree_with_torch_at_every_batch_size(target, momentum, dtype, tolerance):
    """One compiled step runs on batches of 2, 7 and 1: the mean divides by the size at run time."""
    learner = emit(mlp(sgd(0.1, momentum), dtype), target).load()().learner(seed=3)
    tensors, forward = twin(learner.parameters)
    optimiser = torch.optim.SGD(tensors.values(), lr=0.1, momentum=momentum)
    rng = np.random.default_rng(0)
    for batch in (2, 7, 1, 7, 2):
        x = rng.normal(size=(batch, 4)).astype(dtype.numpy)
        y = rng.normal(size=(batch, 3)).astype(dtype.numpy)
        wanted = F.mse_loss(forward(torch.tensor(x)), torch.tensor(y))
        optimiser.zero_grad()
        wanted.backward()
        optimiser.step()
        np.testing.assert_allclose(learner.step(x, y), wanted.item(), rtol=tolerance)
    for name, array in learner.parameters.items():
        array = np.asarray(array)
        assert array.dtype == dtype.numpy
        np.testing.assert_allclose(array, tensors[name].detach(), rtol=tolerance, atol=tolerance)


def test_rev_is_the_vector_jacobian_product_of_torch():
    task = mlp(dtype=Dtype.float64)
    learner = emit(task).load()().learner(seed=1)
    tensors, forward = twin(learner.parameters)
    rng = np.random.default_rng(0)
    x, dy = rng.normal(size=(6, 4)), rng.normal(size=(6, 3))
    inputs = torch.tensor(x, requires_grad=True)
    wanted = torch.autograd.grad(forward(inputs), [*tensors.values(), inputs], torch.tensor(dy))
    found = learner.model.rev(*learner.parameters.values(), x, dy)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)


POINTWISE = {
    "Exp": torch.exp, "Log": torch.log, "Log1p": torch.log1p, "Expm1": torch.expm1, "Tanh": torch.tanh,
    "Sqrt": torch.sqrt, "Rsqrt": torch.rsqrt, "Fmod": torch.fmod,
    "Sin": torch.sin, "Cos": torch.cos, "Erf": torch.erf, "Square": torch.square,
    "Negate": torch.neg, "Abs": torch.abs, "Sign": torch.sign, "Floor": torch.floor, "Round": torch.round,
    "Maximum": torch.maximum, "Minimum": torch.minimum, "Add": torch.add, "Subtract": torch.sub,
    "Multiply": torch.mul, "Divide": torch.div, "Power": torch.pow,
    "Sigmoid": torch.sigmoid, "Relu": torch.relu, "LeakyRelu": F.leaky_relu,
    "Elu": F.elu, "Softplus": F.softplus,
    "Silu": F.silu, "Gelu": F.gelu,
    "GeluTanh": lambda x: F.gelu(x, approximate="tanh"),
}  # fmt: skip
AWKWARD = [0.0, -0.0, 1.0, -1.0, 2.5, np.inf, -np.inf, np.nan, 1e-30, 60.0]


KEEPS_NAN = {"Abs", "Sign", "Elu"}
"""Operations for which PyTorch does not propagate NaN, in the value of Sign or in gradients."""


@pytest.mark.parametrize("name", POINTWISE)
def test_elementwise_operations_at_special_values(name):
    """Compare values and gradients at zeros, ties, infinities and NaN."""
    from catgrad.terms.op import OPS
    from catgrad.terms.term import singleton

    op = OPS[name]()
    grid = np.meshgrid(*[np.array(AWKWARD)] * op.arity(), indexing="ij")
    arrays = [g.ravel() for g in grid]
    if name in KEEPS_NAN:
        arrays = [a[~np.isnan(a)] for a in arrays]
    tensors = [torch.tensor(a, requires_grad=True) for a in arrays]
    wanted = POINTWISE[name](*tensors)
    gradients = torch.autograd.grad(wanted.sum(), tensors)
    types = [NdArrayType(a.shape, Dtype.float64) for a in arrays]
    found, *found_gradients = evaluate(reverse(singleton(op, *types)), *arrays, np.ones(len(arrays[0])))
    np.testing.assert_allclose(found, wanted.detach(), rtol=1e-12)
    for a, b in zip(found_gradients, gradients, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


SHAPED = {
    "slice": (lambda x: ops.slice(x, (1, 0, 1), (2, 4, 3)), lambda x: x[1:3, :, 1:4]),
    "pad": (lambda x: ops.pad(x, [(1, 0), (0, 0), (2, 3)]), lambda x: F.pad(x, (2, 3, 0, 0, 1, 0))),
    "concat": (lambda x: ops.concat([x, 2 * x, x * x], 1), lambda x: torch.cat([x, 2 * x, x * x], 1)),
    "split": (
        lambda x: ops.multiply(*ops.split(x, (2, 2), 1)), lambda x: torch.mul(*torch.split(x, [2, 2], 1))
    ),
    "flip": (lambda x: ops.flip(x, (0, 2)), lambda x: torch.flip(x, (0, 2))),
    "max": (lambda x: ops.max(x, 1), lambda x: torch.amax(x, 1)),
    "ties of max": (lambda x: ops.max(x - x, 1), lambda x: torch.amax(x - x, 1)),
    "softmax": (ops.softmax, lambda x: torch.softmax(x, -1)),
    "softmax along another axis": (lambda x: ops.softmax(100 * x, 0), lambda x: torch.softmax(100 * x, 0)),
    "log_softmax": (lambda x: ops.log_softmax(100 * x, 1), lambda x: torch.log_softmax(100 * x, 1)),
    "layer_norm": (ops.layer_norm, lambda x: F.layer_norm(x, x.shape[-1:])),
    "layer_norm over two axes": (
        lambda x: ops.layer_norm(x, 2, 1e-3), lambda x: F.layer_norm(x, x.shape[-2:], eps=1e-3)
    ),
    "rms_norm": (lambda x: ops.rms_norm(x, 2), lambda x: F.rms_norm(x, x.shape[-2:], eps=1e-5)),
    "gather": (lambda x: ops.gather(x, ops.iota(2)), lambda x: x[torch.arange(2)]),
    "gather again and again": (
        lambda x: ops.gather(x, ops.iota(3) * 0), lambda x: x[torch.zeros(3, dtype=torch.long)]
    ),
    "scatter_add": (
        lambda x: ops.scatter_add(x, ops.iota(3) * 0 + 1, 4),
        lambda x: torch.zeros(4, 4, 5, dtype=x.dtype).index_add(0, torch.ones(3, dtype=torch.long), x),
    ),
    "max_pool": (lambda x: ops.max_pool(x, 2), lambda x: F.max_pool1d(x, 2)),
    "max_pool with overlap": (lambda x: ops.max_pool(x, 3, 1), lambda x: F.max_pool1d(x, 3, 1)),
    "avg_pool": (lambda x: ops.avg_pool(x, 3, 2), lambda x: F.avg_pool1d(x, 3, 2)),
    "sum": (lambda x: ops.sum(x, (0, -1)), lambda x: torch.sum(x, (0, -1))),
    "mean": (lambda x: ops.mean(x, 1), lambda x: torch.mean(x, 1)),
    "matmul": (lambda x: x @ ops.permute(x, 0, 2, 1), lambda x: x @ x.transpose(1, 2)),
}  # fmt: skip


@pytest.mark.covering
@on_all_targets
@pytest.mark.parametrize("name", SHAPED)
def test_operations_on_axes(name, target):
    """Compare values and gradients of data movement and reductions."""
    ours, theirs = SHAPED[name]
    x = np.random.default_rng(0).normal(size=(3, 4, 5))
    term = build(ours, [NdArrayType(x.shape, Dtype.float64)])
    tensor = torch.tensor(x, requires_grad=True)
    wanted = theirs(tensor)
    dy = np.random.default_rng(1).normal(size=wanted.shape)
    (gradient,) = torch.autograd.grad(wanted, tensor, torch.tensor(dy))
    found = run_on(get_backend(target), reverse(term), x, dy)
    for a, b in zip(found, (wanted.detach(), gradient), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


OPTIMISERS = {
    "sgd": (sgd(0.1, weight_decay=0.1), lambda p: torch.optim.SGD(p, 0.1, weight_decay=0.1)),
    "momentum": (sgd(0.1, 0.9), lambda p: torch.optim.SGD(p, 0.1, momentum=0.9)),
    "nesterov": (
        sgd(0.1, 0.9, nesterov=True, weight_decay=0.1),
        lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
    ),
    "adam": (optimisers.adam(0.05), lambda p: torch.optim.Adam(p, 0.05)),
    "adam with decay": (
        optimisers.adam(0.05, 0.8, 0.9, 1e-6, 0.1),
        lambda p: torch.optim.Adam(p, 0.05, (0.8, 0.9), 1e-6, 0.1),
    ),
    "adamw": (optimisers.adamw(0.05), lambda p: torch.optim.AdamW(p, 0.05)),
    "rmsprop": (
        optimisers.rmsprop(0.01, weight_decay=0.1), lambda p: torch.optim.RMSprop(p, 0.01, weight_decay=0.1)
    ),
    "adagrad": (optimisers.adagrad(0.1), lambda p: torch.optim.Adagrad(p, 0.1)),
}  # fmt: skip


@pytest.mark.covering
@on_all_targets_with("learner")
@pytest.mark.parametrize(("dtype", "tolerance"), [(Dtype.float32, 1e-5), (Dtype.float64, 1e-10)])
@pytest.mark.parametrize("name", OPTIMISERS)
def test_optimisers_agree_with_torch(name, dtype, tolerance, target):
    """Compare five steps of the same network from the same parameters."""
    ours, theirs = OPTIMISERS[name]
    learner = emit(mlp(ours, dtype), target).load()().learner(seed=3)
    tensors, forward = twin(learner.parameters)
    optimiser = theirs(list(tensors.values()))
    rng = np.random.default_rng(0)
    for _ in range(5):
        x, y = rng.normal(size=(7, 4)).astype(dtype.numpy), rng.normal(size=(7, 3)).astype(dtype.numpy)
        wanted = F.mse_loss(forward(torch.tensor(x)), torch.tensor(y))
        optimiser.zero_grad()
        wanted.backward()
        optimiser.step()
        learner.step(x, y)
    for key, array in learner.parameters.items():
        np.testing.assert_allclose(np.asarray(array), tensors[key].detach(), rtol=tolerance, atol=tolerance)


def test_lion_moves_by_the_sign_of_its_mean():
    learner = emit(mlp(optimisers.lion(0.1, 0.9, 0.99, 0.5), Dtype.float64)).load()().learner(seed=0)
    rng = np.random.default_rng(0)
    mean = dict.fromkeys(learner.parameters, 0.0)
    for _ in range(3):
        x, y = rng.normal(size=(7, 4)), rng.normal(size=(7, 3))
        before = learner.parameters.copy()
        tensors, forward = twin(before)
        F.mse_loss(forward(torch.tensor(x)), torch.tensor(y)).backward()
        learner.step(x, y)
        for name, tensor in tensors.items():
            gradient = tensor.grad.numpy()
            wanted = (1 - 0.1 * 0.5) * before[name] - 0.1 * np.sign(0.9 * mean[name] + 0.1 * gradient)
            np.testing.assert_allclose(learner.parameters[name], wanted, rtol=1e-10)
            mean[name] = 0.99 * mean[name] + 0.01 * gradient


LOSSES = {
    "mse": (losses.mse, F.mse_loss),
    "l1": (losses.l1, F.l1_loss),
    "huber": (losses.huber, F.huber_loss),
    "huber 0.3": (partial(losses.huber, delta=0.3), partial(F.huber_loss, delta=0.3)),
    "bce": (
        lambda a, b: losses.bce_with_logits(a, ops.sigmoid(b)),
        lambda a, b: F.binary_cross_entropy_with_logits(a, torch.sigmoid(b)),
    ),
    "kl": (
        lambda a, b: losses.kl_div(ops.log_softmax(a), ops.relu(b)),
        lambda a, b: F.kl_div(torch.log_softmax(a, -1), torch.relu(b), reduction="batchmean"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
def test_losses_agree_with_torch(name):
    ours, theirs = LOSSES[name]
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(5, 3)) * 3, rng.normal(size=(5, 3))
    term = build(ours, [NdArrayType((5, 3), Dtype.float64)] * 2)
    tensors = [torch.tensor(a, requires_grad=True), torch.tensor(b)]
    wanted = theirs(*tensors)
    wanted.backward()
    found, gradient, _ = evaluate(reverse(term), a, b, np.float64(1))
    np.testing.assert_allclose(found, wanted.detach(), rtol=1e-12)
    np.testing.assert_allclose(gradient, tensors[0].grad, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("shape", [(6, 4), (2, 3, 4)])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("ignored", [False, True])
@on_all_targets
def test_cross_entropy_agrees_with_torch(shape, smoothing, ignored, target):
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=shape) * 5, rng.integers(0, 4, shape[:-1])
    if ignored:
        labels.flat[::3] = -100
    loss = partial(losses.cross_entropy, label_smoothing=smoothing)
    types = [NdArrayType(shape, Dtype.float64), NdArrayType(shape[:-1], Dtype.int64)]
    tensor = torch.tensor(logits, requires_grad=True)
    wanted = F.cross_entropy(torch.movedim(tensor, -1, 1), torch.tensor(labels), label_smoothing=smoothing)
    wanted.backward()
    found, gradient, _ = run_on(
        get_backend(target), reverse(build(loss, types)), logits, labels, np.float64(1)
    )
    np.testing.assert_allclose(found, wanted.detach(), rtol=1e-12)
    np.testing.assert_allclose(gradient, tensor.grad, rtol=1e-10, atol=1e-14)


def test_a_label_out_of_range_is_not_ignored():
    types = [NdArrayType((2, 3)), NdArrayType((2,), Dtype.int64)]
    term = build(losses.cross_entropy, types)
    with pytest.raises(IndexError, match=r"must lie in 0 … 2, but it reaches 0 … 3"):
        evaluate(term, np.zeros((2, 3), np.float32), np.array([0, 3]))


@on_all_targets_with("learner")
def test_a_classifier_trains_on_integers(target):
    """A task has integer labels: the types of Y differ from those of the outputs."""
    A, B, C = NdArrayType((Dim("batch"),)), NdArrayType((4,)), NdArrayType((3,))
    identity = layers.pointwise(lambda x: x)
    labels = (NdArrayType(A.shape, Dtype.int64),)
    model = layers.dense(A, B, C, activation=identity)
    task = Task(model, optimisers.adam(0.1), losses.cross_entropy, labels=labels)
    learner = emit(task, target).load()().learner()
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 4))
    y = (x @ rng.normal(size=(4, 3))).argmax(axis=1)
    for _ in range(200):
        learner.step(x, y)
    assert np.mean(np.asarray(learner.predict(x)).argmax(axis=1) == y) > 0.95


@on_targets
@pytest.mark.parametrize("index", [[0, 3], [-1, 0]])
def test_rows_out_of_range_are_refused(target, index):
    types = [NdArrayType((3, 2)), NdArrayType((2,), Dtype.int64)]
    x = np.zeros((3, 2), np.float32)
    for term in (
        build(ops.gather, types),
        build(lambda x, i: ops.scatter_add(ops.gather(x, i * 0), i, 3), types),
    ):
        for compute in (lambda f, *a: run_on(get_backend(target), f, *a), evaluate):
            with pytest.raises(IndexError, match="an index must lie in"):
                compute(term, x, np.array(index))


@on_all_targets_with("learner")
def test_a_language_model_trains_as_in_torch(target):
    """Compare five AdamW steps of embedding, layer norm, GELU and cross entropy."""
    A = NdArrayType((Dim("batch"), 3), Dtype.int64)
    N, B, V = (
        NdArrayType((Dim("batch"), 3), Dtype.float64),
        NdArrayType((6,), Dtype.float64),
        NdArrayType((5,), Dtype.float64),
    )
    logits = layers.pointwise(lambda x: x)
    model = layers.sequential(
        layers.embedding(A, 5, B, name=""), layers.layer_norm(N, B, name=""),
        layers.dense(N, B, B, activation=layers.gelu, name=""), layers.rms_norm(N, B, name=""),
        layers.dense(N, B, V, activation=logits, name=""),
    )  # fmt: skip
    task = Task(model, optimisers.adamw(0.05), losses.cross_entropy, labels=(A,))
    learner = emit(task, target).load()().learner(seed=1)
    nn = torch.nn
    twin = nn.Sequential(
        nn.Embedding(5, 6),
        nn.LayerNorm(6),
        nn.Linear(6, 6),
        nn.GELU(),
        nn.RMSNorm(6, eps=1e-5),
        nn.Linear(6, 5),
    ).double()
    places = {"0": "0", "1": "1", "2": "2", "3": "4", "4": "5"}
    for name, array in learner.parameters.items():
        layer, _, kind = name.partition(".")
        tensor = torch.tensor(np.array(array))
        tensor = tensor.T if layer in "24" and kind == "weight" else tensor
        twin.get_parameter(f"{places[layer]}.{kind}").data.copy_(tensor)
    optimiser = torch.optim.AdamW(twin.parameters(), 0.05)
    rng = np.random.default_rng(0)
    for _ in range(5):
        x, y = rng.integers(0, 5, (7, 3)), rng.integers(0, 5, (7, 3))
        wanted = F.cross_entropy(twin(torch.tensor(x)).movedim(-1, 1), torch.tensor(y))
        optimiser.zero_grad()
        wanted.backward()
        optimiser.step()
        np.testing.assert_allclose(learner.step(x, y), wanted.item(), rtol=1e-10)


CONVOLUTIONS = {
    "1-D": ((2, 4, 9), (6, 4, 3), dict()),
    "1-D, all options": ((2, 4, 9), (6, 2, 3), dict(stride=2, padding=2, dilation=2, groups=2)),
    "2-D": ((2, 3, 7, 6), (5, 3, 3, 2), dict()),
    "2-D, strides and padding": ((2, 3, 7, 6), (5, 3, 3, 2), dict(stride=(2, 1), padding=(1, 2))),
    "2-D, dilated": ((2, 3, 9, 8), (5, 3, 3, 2), dict(dilation=(2, 3), padding=1)),
    "2-D, depthwise": ((2, 4, 5, 5), (4, 1, 3, 3), dict(groups=4, padding=1)),
    "3-D": ((1, 2, 4, 5, 3), (3, 2, 2, 2, 2), dict(stride=(1, 2, 1))),
    "one by one": ((1, 1, 1, 1), (1, 1, 1, 1), dict()),
}


@pytest.mark.covering
@on_all_targets
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_agree_with_torch(name, target):
    """Compare values and both gradients, by `ref` and by emitted code."""
    x_shape, w_shape, options = CONVOLUTIONS[name]
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=x_shape), rng.normal(size=w_shape)
    tensors = [torch.tensor(a, requires_grad=True) for a in (x, w)]
    wanted = getattr(F, f"conv{x.ndim - 2}d")(*tensors, **options)
    dy = rng.normal(size=wanted.shape)
    gradients = torch.autograd.grad(wanted, tensors, torch.tensor(dy))
    types = [NdArrayType(a.shape, Dtype.float64) for a in (x, w)]
    term = reverse(build(lambda x, w: ops.conv(x, w, **options), types))
    for found in (evaluate(term, x, w, dy), run_on(get_backend(target), term, x, w, dy)):
        for a, b in zip(found, (wanted.detach(), *gradients), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@on_all_targets_with("learner")
def test_a_small_cnn_trains_as_in_torch(target):
    """Compare five SGD steps of convolution, ReLU, pooling and a dense layer at two batch sizes."""
    x = NdArrayType((Dim("batch"), 1, 8, 8), Dtype.float64)
    A, B, C = (NdArrayType(s, Dtype.float64) for s in ((Dim("batch"),), (36,), (3,)))
    convolved = NdArrayType((Dim("batch"), 4, 6, 6), Dtype.float64)
    model = layers.sequential(
        layers.conv(x, 4, 3, name=""), layers.relu([convolved]), layers.max_pool(convolved, 2),
        layers.flatten(NdArrayType((Dim("batch"), 4, 3, 3), Dtype.float64)),
        layers.dense(A, B, C, activation=layers.pointwise(lambda x: x), name=""),
    )  # fmt: skip
    labels = (NdArrayType((Dim("batch"),), Dtype.int64),)
    task = Task(model, sgd(0.1, 0.9), losses.cross_entropy, labels=labels)
    learner = emit(task, target).load()().learner(seed=1)
    nn = torch.nn
    twin = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3)
    ).double()
    for name, array in learner.parameters.items():
        tensor = torch.tensor(np.array(array))
        twin.get_parameter(name).data.copy_(tensor.T if name == "4.weight" else tensor)
    optimiser = torch.optim.SGD(twin.parameters(), 0.1, momentum=0.9)
    rng = np.random.default_rng(0)
    for batch in (5, 2, 5, 1, 3):
        images, y = rng.normal(size=(batch, 1, 8, 8)), rng.integers(0, 3, batch)
        wanted = F.cross_entropy(twin(torch.tensor(images)), torch.tensor(y))
        optimiser.zero_grad()
        wanted.backward()
        optimiser.step()
        np.testing.assert_allclose(learner.step(images, y), wanted.item(), rtol=1e-10)


@pytest.mark.covering
@on_all_targets_with("symbolic sizes")
@pytest.mark.parametrize(("causal", "window"), [(False, None), (True, None), (True, 3)])
def test_attention_agrees_with_torch(target, causal, window):
    """Compare values and all gradients, with a symbolic length."""
    shape = NdArrayType((2, 3, Dim("t"), 4), Dtype.float64)
    term = reverse(build(lambda q, k, v: ops.attention(q, k, v, causal, window), [shape] * 3))
    rng = np.random.default_rng(0)
    for length in (1, 5):
        q, k, v, dy = (rng.normal(size=(2, 3, length, 4)) for _ in range(4))
        tensors = [torch.tensor(a, requires_grad=True) for a in (q, k, v)]
        seen = torch.ones(length, length, dtype=torch.bool)
        seen = seen.tril() if causal else seen
        seen = seen.triu(1 - window) if window else seen
        wanted = F.scaled_dot_product_attention(*tensors, attn_mask=seen)
        gradients = torch.autograd.grad(wanted, tensors, torch.tensor(dy))
        for found in (evaluate(term, q, k, v, dy), run_on(get_backend(target), term, q, k, v, dy)):
            for a, b in zip(found, (wanted.detach(), *gradients), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
