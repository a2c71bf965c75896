"""Modules that torch.export refuses are traced by make_fx below autograd: the same function, and gradient."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from catgrad import compile_module
from catgrad.errors import UnsupportedOp
from catgrad.frontends.torch import from_torch
from tests.covering import some

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

from catgrad.frontends.torch.tracing.export import Export  # noqa: E402  # it needs PyTorch

nn, functional = torch.nn, torch.nn.functional


class Layer(nn.Module):
    """A function of a layer, and of the rows of a batch norm."""

    def __init__(self, function):
        super().__init__()
        self.function, self.linear, self.norm = function, nn.Linear(4, 4), nn.BatchNorm1d(4)
        self.register_buffer("average", torch.zeros(4))

    def forward(self, x):
        return self.function(self, self.norm(x))


def stopped(layer, x):
    return layer.linear(x).detach() * x + layer.linear(x).tanh()


def without_gradient(layer, x):
    with torch.no_grad():
        y = layer.linear(x)
        layer.average.mul_(0.9).add_(0.1 * y.mean(0))
    return x * y + layer.average


def updated(layer, x):
    y = layer.linear(x)
    y[:, 1:3] *= 2
    return y.add_(x)


def attended(layer, x):
    rows = layer.linear(x).reshape(-1, 2, 2)
    return functional.scaled_dot_product_attention(rows, rows, rows).flatten(1)


BOTH = {
    "layer": lambda layer, x: layer.linear(x),
    "constant": lambda layer, x: layer.linear(x) * torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=x.dtype),
    "convolution": lambda layer, x: functional.conv1d(x[:, None], layer.linear.weight[:, None])[..., 0],
    "reduction": lambda layer, x: (x - x.amax(1, True)).softmax(1) * layer.linear(x).std(1, keepdim=True),
    "norm": lambda layer, x: functional.layer_norm(layer.linear(x), [4]) * functional.gelu(x),
    "branch of a size": lambda layer, x: layer.linear(x) if x.shape[0] > 2 else x,
    "detach": stopped,
    "no_grad": without_gradient,
    "updates": updated,
    "attention": attended,
}

BELOW = {
    "rows": lambda layer, x: torch.vmap(lambda row: layer.linear(row).tanh())(x),
    "weights": lambda layer, x: torch.vmap(lambda w: x @ w)(layer.linear.weight).T,
    "nested": lambda layer, x: torch.vmap(lambda a: torch.vmap(a.dot)(layer.linear.weight))(x),
    "detach in rows": lambda layer, x: torch.vmap(lambda row: layer.linear(row).detach() * row)(x),
}


@pytest.fixture
def below(monkeypatch):
    """Take the second way at once."""
    monkeypatch.setattr(Export, "_traced", Export._by_make_fx)


def made(function):
    torch.manual_seed(0)
    return Layer(function).double(), torch.randn(5, 4, dtype=torch.float64)


def trained(module, x, steps=3):
    """Return a learner after steps at two sizes of the batch."""
    optimiser = torch.optim.SGD(module.parameters(), 0.1)
    learner = compile_module(module, x, optimiser, nn.MSELoss())
    batches = [torch.tensor(np.random.default_rng(n).normal(size=(n, 4))) for n in (7, 3)]
    learner.verify([(b, b.cos()) for b in batches], steps=steps).check()
    for b in batches:
        learner.step(b.numpy(), b.cos().numpy())
    return learner


QUICK = ("reduction", "updates")


@pytest.mark.parametrize("name", some(BOTH, QUICK))
def test_both_ways_train_alike(name, request):
    module, x = made(BOTH[name])
    first = trained(copy.deepcopy(module), x)
    request.getfixturevalue("below")
    second = trained(copy.deepcopy(module), x)
    assert list(first.imported.inputs.items()) == list(second.imported.inputs.items())
    assert first.imported.model.source == second.imported.model.source
    for ours, others in ((first.parameters, second.parameters), (first.buffers, second.buffers)):
        for array in ours.keys() & others.keys():
            np.testing.assert_allclose(ours[array], others[array], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", some(BELOW, ("rows", "detach in rows")))
def test_transforms_that_the_exporter_refuses_train_as_in_pytorch(name):
    trained(*made(BELOW[name]))


DETACHES = {
    "torch.detach": torch.detach,
    "Tensor.detach": torch.Tensor.detach,
    "aten": torch.ops.aten.detach,
    "data": lambda y: y.data,
}


@pytest.mark.covering(0)
@pytest.mark.parametrize("name", DETACHES)
def test_a_gradient_stops_at_each_form_of_detach(name, below):
    trained(*made(lambda layer, x: DETACHES[name](layer.linear(x)) * x + layer.linear(x).tanh()))


def test_detach_in_place_is_refused(below):
    with pytest.raises(UnsupportedOp, match=r"write x = x.detach\(\)"):
        from_torch(*made(lambda layer, x: layer.linear(x).detach_() * x + layer.linear(x).tanh()), train=True)


def test_assumptions_about_sizes_are_those_of_both_traces(below):
    module, x = made(BOTH["branch of a size"])
    learner = compile_module(module, x, torch.optim.SGD(module.parameters(), 0.1), nn.MSELoss())
    with pytest.raises(Exception, match="batch"):
        learner.predict(np.zeros((2, 4)))


def test_updates_of_arrays_with_a_gradient_under_no_grad_are_refused(below):
    def hidden(layer, x):
        y = layer.linear(x)
        with torch.no_grad():
            y.mul_(2)
        return y

    with pytest.raises(UnsupportedOp, match="gradient"):
        from_torch(*made(hidden), train=True)


def test_a_module_that_neither_way_traces_is_refused_for_the_first_reason():
    with pytest.raises(UnsupportedOp, match="must not depend on data"):
        from_torch(*made(lambda layer, x: torch.vmap(lambda row: row)(x) if x.sum() > 0 else x))


def test_hooks_are_applied_once(below):
    module, x = made(BOTH["layer"])
    module.register_forward_hook(lambda module, inputs, output: 2 * output)
    trained(module, x)
