"""Operations along axes, attention, and Lion, against PyTorch's autograd."""

from __future__ import annotations

import numpy as np
import pytest

from catgrad import Dim, Dtype, NdArrayType, build, ops, optimisers
from catgrad.functors import reverse
from catgrad.programs.program import evaluate
from catgrad.targets import get_backend
from catgrad.testing import run_on
from tests.models import mlp
from tests.targets import emit, on_all_targets, on_all_targets_with

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")


F = torch.nn.functional


def twin(parameters):
    """Build the network `mlp` in PyTorch, on copies of the parameters."""
    tensors = {name: torch.tensor(np.array(a)).requires_grad_() for name, a in parameters.items()}

    def forward(x):
        h = torch.sigmoid(x @ tensors["dense_0.weight"] + tensors["dense_0.bias"])
        return torch.tanh(h @ tensors["dense_1.weight"] + tensors["dense_1.bias"])

    return tensors, forward


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


SHAPED = {
    "slice": (lambda x: ops.slice(x, (1, 0, 1), (2, 4, 3)), lambda x: x[1:3, :, 1:4]),
    "pad": (lambda x: ops.pad(x, [(1, 0), (0, 0), (2, 3)]), lambda x: F.pad(x, (2, 3, 0, 0, 1, 0))),
    "concat": (lambda x: ops.concat([x, 2 * x, x * x], 1), lambda x: torch.cat([x, 2 * x, x * x], 1)),
    "split": (
        lambda x: ops.multiply(*ops.split(x, (2, 2), 1)),
        lambda x: torch.mul(*torch.split(x, [2, 2], 1)),
    ),
    "flip": (lambda x: ops.flip(x, (0, 2)), lambda x: torch.flip(x, (0, 2))),
    "max": (lambda x: ops.max(x, 1), lambda x: torch.amax(x, 1)),
    "ties of max": (lambda x: ops.max(x - x, 1), lambda x: torch.amax(x - x, 1)),
    "softmax": (ops.softmax, lambda x: torch.softmax(x, -1)),
    "softmax along another axis": (lambda x: ops.softmax(100 * x, 0), lambda x: torch.softmax(100 * x, 0)),
    "log_softmax": (lambda x: ops.log_softmax(100 * x, 1), lambda x: torch.log_softmax(100 * x, 1)),
    "layer_norm": (ops.layer_norm, lambda x: F.layer_norm(x, x.shape[-1:])),
    "layer_norm over two axes": (
        lambda x: ops.layer_norm(x, 2, 1e-3),
        lambda x: F.layer_norm(x, x.shape[-2:], eps=1e-3),
    ),
    "rms_norm": (lambda x: ops.rms_norm(x, 2), lambda x: F.rms_norm(x, x.shape[-2:], eps=1e-5)),
    "gather": (lambda x: ops.gather(x, ops.iota(2)), lambda x: x[torch.arange(2)]),
    "gather again and again": (
        lambda x: ops.gather(x, ops.iota(3) * 0),
        lambda x: x[torch.zeros(3, dtype=torch.long)],
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
}


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
