"""Training steps of whole models on every target, against autograd and torch.optim."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import pytest

from catgrad import Dim, Dtype, NdArrayType, Task, build, layers, ops
from catgrad.learn.losses import cross_entropy, mse
from catgrad.learn.optimisers import adam, adamw, rmsprop, sgd
from catgrad.terms.term import Term
from catgrad.terms.var import Var
from tests.targets import emit, on_all_targets_with

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")
nn, optim = torch.nn, torch.optim
N = Dim("batch")


@dataclass(frozen=True)
class Twins:
    """A model and its twin in PyTorch; `names` maps prefixes of names, `rows` are embeddings."""

    model: Term
    module: torch.nn.Module
    loss: tuple[Callable[..., Var], Callable[..., torch.Tensor]]
    batch: Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]
    labels: tuple[NdArrayType, ...] | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    rows: frozenset[str] = frozenset()

    def translated(self, name: str, array: Any) -> tuple[str, Any]:
        """Transpose: our products are x · W, those of PyTorch x · Wᵀ."""
        tensor = torch.tensor(np.array(array))
        tensor = tensor.T if tensor.ndim == 2 and name not in self.rows else tensor
        for ours, theirs in self.names.items():
            name = name.replace(ours, theirs)
        return name, tensor


def mlp(dtype: Dtype) -> Twins:
    def f(*shape):
        return NdArrayType(shape, dtype)

    model = layers.sequential(
        layers.dense(f(N), f(4), f(6), layers.tanh, name=""),
        layers.layer_norm(f(N), f(6), name=""),
        layers.dense(f(N), f(6), f(3), layers.silu, name=""),
    )
    module = nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.Linear(6, 3))
    module.forward = lambda x: nn.functional.silu(module[2](module[1](torch.tanh(module[0](x)))))

    def batch(rng, n):
        return rng.normal(size=(n, 4)).astype(dtype.numpy), rng.normal(size=(n, 3)).astype(dtype.numpy)

    return Twins(model, module, (mse, nn.functional.mse_loss), batch)


def cnn(dtype: Dtype) -> Twins:
    def f(*shape):
        return NdArrayType(shape, dtype)

    model = layers.sequential(
        layers.conv(f(N, 2, 6, 6), 4, 3, 1, 1, bias=False, name=""),
        layers.batch_norm(f(N, 4, 6, 6), name=""),
        layers.relu([f(N, 4, 6, 6)]),
        layers.max_pool(f(N, 4, 6, 6), 2),
        layers.flatten(f(N, 4, 3, 3)),
        layers.dropout(f(N, 36), 0.0),
        layers.linear(f(N), f(36), f(5), name=""),
        layers.batch_norm(f(N, 5), 0.3, 1e-3, name=""),
    )
    module = nn.Sequential(
        nn.Conv2d(2, 4, 3, 1, 1, bias=False),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0),
        nn.Linear(36, 5, bias=False),
        nn.BatchNorm1d(5, 1e-3, 0.3),
    )

    def batch(rng, n):
        return rng.normal(size=(n, 2, 6, 6)).astype(dtype.numpy), rng.integers(0, 5, n)

    loss = cross_entropy, nn.functional.cross_entropy
    return Twins(model, module, loss, batch, (NdArrayType((N,), Dtype.int64),))


class LastOfLSTM(nn.LSTM):
    def forward(self, x):
        return super().forward(x)[0].mean(1)


def lstm(dtype: Dtype) -> Twins:
    def f(*shape):
        return NdArrayType(shape, dtype)

    model = layers.sequential(
        layers.lstm(f(N, Dim("time")), f(3), f(4), name=""),
        build(lambda h: ops.mean(h, 1), [f(N, Dim("time"), 4)]),
        layers.dense(f(N), f(4), f(5), layers.identity, name=""),
    )
    module = nn.Sequential(LastOfLSTM(3, 4, batch_first=True), nn.Linear(4, 5))

    def batch(rng, n):
        return rng.normal(size=(n, 2 + n, 3)).astype(dtype.numpy), rng.integers(0, 5, n)

    labels, loss = (NdArrayType((N,), Dtype.int64),), (cross_entropy, nn.functional.cross_entropy)
    return Twins(model, module, loss, batch, labels, {"2.": "1."})


class GPT(nn.Module):
    """Two causal blocks on embeddings and learned positions."""

    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(7, 8), nn.Embedding(5, 8)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(8, 2, 16, 0.0, "gelu", 1e-5, True, True) for _ in range(2)
        )
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 7, bias=False)

    def forward(self, x):
        h = self.tokens(x) + self.positions.weight
        mask = nn.Transformer.generate_square_subsequent_mask(5, dtype=h.dtype)
        for block in self.blocks:
            h = block(h, src_mask=mask)
        return self.head(self.norm(h)).movedim(-1, 1)


def gpt(dtype: Dtype) -> Twins:
    A, B, words = NdArrayType((N, 5), dtype), NdArrayType((8,), dtype), NdArrayType((N, 5), Dtype.int64)
    blocks = [layers.transformer_block(A, B, 2, 16, causal=True, name="") for _ in range(2)]

    def forward(x):
        places = layers.parameter("positions.weight", NdArrayType((5, 8), dtype))
        h = layers.embedding(words, 7, B, name="tokens")(x) + ops.broadcast(places, (N, 5, 8))
        h = layers.named("blocks", layers.sequential(*blocks))(h)
        logits = layers.linear(A, B, NdArrayType((7,), dtype), name="head")
        return logits(layers.layer_norm(A, B, name="norm")(h))

    def batch(rng, n):
        return rng.integers(0, 7, (n, 5)), rng.integers(0, 7, (n, 5))

    loss, names = (cross_entropy, nn.functional.cross_entropy), {"in_proj.": "in_proj_"}
    rows = frozenset({"tokens.weight", "positions.weight"})
    return Twins(build(forward, [words]), GPT(), loss, batch, (words,), names, rows)


MODELS = {"mlp": mlp, "cnn": cnn, "lstm": lstm, "gpt": gpt}

# A gradient that is 0 but for rounding, as that of a key's bias, is blown up by 1 / ε: a large ε keeps the
# comparison one of formulas. For the same reason nothing before a batch norm has a bias.
OPTIMISERS = {
    "nesterov": (
        sgd(0.05, 0.9, nesterov=True, weight_decay=0.01),
        lambda p: optim.SGD(p, 0.05, 0.9, nesterov=True, weight_decay=0.01),
    ),
    "adamw": (adamw(0.02, 0.8, 0.95, 1e-3), lambda p: optim.AdamW(p, 0.02, (0.8, 0.95), 1e-3)),
    "amsgrad": (
        adam(0.02, epsilon=1e-3, amsgrad=True),
        lambda p: optim.Adam(p, 0.02, eps=1e-3, amsgrad=True),
    ),
    "rmsprop": (
        rmsprop(0.003, epsilon=1e-3, momentum=0.5, centred=True),
        lambda p: optim.RMSprop(p, 0.003, eps=1e-3, momentum=0.5, centered=True),
    ),
}


PAIRS = [
    pytest.param(name, rule, marks=[] if name == "mlp" or rule == "adamw" else pytest.mark.long)
    for name, rule in product(MODELS, OPTIMISERS)
]


def assert_equal(found, wanted, tolerance, name):
    """Compare values and dtypes."""
    found, wanted = np.asarray(found), wanted.detach().numpy()
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.covering
@on_all_targets_with("learner")
@pytest.mark.parametrize(("dtype", "tolerance"), [(Dtype.float32, 1e-5), (Dtype.float64, 1e-10)])
@pytest.mark.parametrize(("name", "optimiser"), PAIRS)
def test_five_steps_agree_with_torch(name, optimiser, dtype, tolerance, target):
    """Compare losses, parameters and buffers, at several batch sizes."""
    (ours, theirs), twins = OPTIMISERS[optimiser], MODELS[name](dtype)
    task = Task(twins.model, ours, twins.loss[0], labels=twins.labels)
    learner, module = emit(task, target).load()().learner(seed=3), twins.module.to(getattr(torch, dtype.name))
    first = dict(twins.translated(*item) for item in learner.parameters.items())
    assert first.keys() == dict(module.named_parameters()).keys()
    for key, parameter in module.named_parameters():
        parameter.data.copy_(first[key])
    optimiser = theirs(module.parameters())
    rng = np.random.default_rng(0)
    for size in (4, 2, 3, 4, 2):
        x, y = twins.batch(rng, size)
        loss = twins.loss[1](module(torch.tensor(x)), torch.tensor(y))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        assert_equal(learner.step(x, y), loss, tolerance, "loss")
    wanted = dict(module.named_parameters()) | dict(module.named_buffers())
    found = dict(twins.translated(*item) for item in (learner.parameters | learner.buffers).items())
    assert found.keys() - wanted.keys() <= {"seed", "draws"}
    for key, tensor in wanted.items():
        assert_equal(found[key], tensor, tolerance, key)
