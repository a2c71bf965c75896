"""Hazards of torch.export: modules that it exports differ from what they mean in PyTorch, or look as if."""

from __future__ import annotations

import numpy as np
import pytest

from catgrad import Functions, compile_module, mse, sgd
from catgrad.errors import UnsupportedOp
from catgrad.frontends.torch import from_torch
from catgrad.terms.term import edges
from tests.targets import emit

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

from tests.conformance.torch_models import Function, Rounded  # noqa: E402  # it needs PyTorch

F, nn = torch.nn.functional, torch.nn


class Layer(nn.Module):
    """A function of a linear layer and its input."""

    def __init__(self, function, width=4):
        super().__init__()
        self.linear, self.function = nn.Linear(width, width), function

    def forward(self, x):
        return self.function(self.linear, x)


class Shuffled(nn.Module):
    """Parameters, buffers and constants in another order than that of their use."""

    def __init__(self):
        super().__init__()
        self.last, self.first = (nn.Parameter(torch.randn(4)) for _ in range(2))
        self.register_buffer("table", torch.randn(4))
        self.register_buffer("passing", torch.randn(4), persistent=False)
        self.frozen = nn.Parameter(torch.randn(4), requires_grad=False)

    def forward(self, x):
        return (x * self.first - self.table * self.last) * self.passing + self.frozen


def attention(linear, x):
    """Attention whose result is transposed in memory, as in GPT-2, where decomposition fails."""
    q = linear(x).view(*x.shape[:2], 2, 2).transpose(1, 2)
    y = F.scaled_dot_product_attention(q, q, q, is_causal=True)
    return y.transpose(1, 2).reshape(-1, 4).view(*x.shape)


def checkpointed(linear, x):
    return torch.utils.checkpoint.checkpoint(lambda x: linear(x).tanh(), x, use_reentrant=False)


def identities(linear, x):
    h = linear(x).contiguous().clone(memory_format=torch.contiguous_format)
    return torch.ops.aten.alias(h).T.contiguous().T * torch.tensor([1.0, 2.0, 3.0, 4.0]) + h.detach()


def assigned(linear, x):
    h = linear(x)
    h.view(-1).mul_(2)
    h[:, 0] = 0
    h[1] += x[0]
    return h


@torch.no_grad()
def constant(linear, x):
    return linear(x)


ALIKE = {
    "order": (Shuffled, (3, 4)),
    "attention": (lambda: Layer(attention), (2, 3, 4)),
    "checkpoint": (lambda: Layer(checkpointed), (3, 4)),
    "identities": (lambda: Layer(identities), (3, 4)),
    "in place": (lambda: Layer(assigned), (3, 4)),
    "without gradient": (lambda: Layer(lambda linear, x: linear(x) + constant(linear, x)), (3, 4)),
    "weight norm": (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)), (3, 4)),
}


@pytest.mark.parametrize("name", ALIKE)
def test_three_steps_are_those_of_pytorch(name):
    torch.manual_seed(0)
    make, shape = ALIKE[name]
    module, x = make().double(), torch.randn(*shape, dtype=torch.float64)
    optimiser = torch.optim.SGD([p for p in module.parameters() if p.requires_grad], 0.1)
    learner = compile_module(module, x, sgd(0.1), mse, dynamic=())
    for _ in range(3):
        y_hat = module(x)
        loss = y_hat.square().mean()
        np.testing.assert_allclose(learner.step(x.numpy(), np.zeros(y_hat.shape)), loss.item(), rtol=1e-9)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


def test_autocast_is_exported_as_casts():
    def cast(linear, x):
        with torch.autocast("cpu", torch.bfloat16):
            return linear(x)

    torch.manual_seed(0)
    module, x = Layer(cast), torch.randn(3, 4)
    imported = from_torch(module, x)
    assert str(imported.model.target.table[0]) == "bf16[3,4]"
    learner = compile_module(Layer(lambda linear, x: cast(linear, x).float()), x, sgd(0.1), mse)
    learner.parameters = dict(imported.parameters)
    np.testing.assert_allclose(learner.predict(x.numpy()), module(x).detach().float(), atol=1e-2)


@pytest.mark.parametrize("make", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_are_loops(make):
    sizes = [len(edges(from_torch(make(3, 4), torch.randn(length, 2, 3)).model)) for length in (2, 30)]
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize("target", ["numpy", "c"])
def test_a_symbolic_batch_may_be_one(target):
    """Sizes 0 and 1 are special in PyTorch, because of broadcasting."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv1d(2, 3, 2), nn.Flatten(), nn.LayerNorm(9), nn.Linear(9, 2)).double()
    learner = compile_module(module, torch.randn(1, 2, 4, dtype=torch.float64), sgd(0.1), mse, target)
    for batch in (1, 3):
        x = torch.randn(batch, 2, 4, dtype=torch.float64)
        wanted = module(x)
        np.testing.assert_allclose(learner.predict(x.numpy()), wanted.detach(), atol=1e-12)
        loss = learner.loss(x.numpy(), np.zeros((batch, 2)))
        np.testing.assert_allclose(loss, wanted.square().mean().item(), atol=1e-12)


def hooked(linear, x):
    h = linear(x)
    if h.requires_grad:
        h.register_hook(lambda dh: 3 * dh)
    return h


def doubled(linear, x):
    h = linear(x)
    with torch.no_grad():
        h[0].mul_(2)
    return h


def inferred(linear, x):
    with torch.inference_mode():
        h = linear(x)
    return linear(x) * h.clone()


def with_hook(kind):
    module = Layer(lambda linear, x: linear(x))
    if kind == "module":
        module.linear.register_full_backward_hook(lambda module, dx, dy: None)
    else:
        module.linear.weight.register_hook(lambda dw: 3 * dw)
    return module


OWN_GRADIENTS = {
    "function": (
        lambda: Layer(lambda linear, x: Rounded.apply(linear(x))),
        "Rounded is a torch.autograd.Func",
    ),
    "hook": (lambda: Layer(hooked), r"the hook hooked.* changes that of a tensor, in hooked"),
    "hook of a module": (lambda: with_hook("module"), "linear has a backward hook"),
    "hook of a parameter": (lambda: with_hook("parameter"), r"linear.weight has a hook"),
    "hidden update": (lambda: Layer(doubled), r"changed under torch.no_grad\(\)"),
    "inference mode": (lambda: Layer(inferred), r"torch.inference_mode\(\) stops it"),
}


@pytest.mark.parametrize("name", OWN_GRADIENTS)
def test_gradients_that_are_not_those_of_operations_are_refused(name):
    """torch.export does not record them, so training would differ without a warning."""
    make, pattern = OWN_GRADIENTS[name]
    with pytest.raises(UnsupportedOp, match=rf"a gradient must be that of the operations.*{pattern}"):
        from_torch(make(), torch.randn(3, 4), train=True)


def test_an_average_under_no_grad_is_a_buffer():
    class Average(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.register_buffer("mean", torch.zeros(4))

        def forward(self, x):
            y = self.linear(x)
            with torch.no_grad():
                self.mean.mul_(0.9).add_(y.mean(0), alpha=0.1)
            return y - self.mean

    torch.manual_seed(0)
    module, x = Average(), torch.randn(3, 4)
    learner = compile_module(module, x, sgd(0.1), mse, dynamic=())
    loss = learner.step(x.numpy(), np.zeros((3, 4), np.float32))
    np.testing.assert_allclose(loss, module(x).square().mean().item(), rtol=1e-5)
    np.testing.assert_allclose(learner.buffers["mean"], module.mean, rtol=1e-5)


def test_an_example_in_two_places_is_two_inputs():
    module = Function(lambda x, y: x - 2 * y)
    x, y = torch.randn(4, 3), torch.randn(4, 3)
    model = emit(Functions({"f": from_torch(module, x, x).model}), "numpy").load()()
    np.testing.assert_allclose(model.f(x.numpy(), y.numpy())[0], module(x, y).numpy(), rtol=1e-6)


def test_a_parameter_as_an_example_is_an_input():
    module = nn.Linear(3, 3, bias=False)
    x = torch.randn(3, 3)
    task = from_torch(module, module.weight).task(sgd(0.1), mse)
    found = emit(task, "numpy").load()().learner().predict(x.numpy())
    np.testing.assert_allclose(found, module(x).detach().numpy(), rtol=1e-5)
