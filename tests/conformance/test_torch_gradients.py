"""Gradients that forward cuts, changes or defines: those of PyTorch, or refused by name."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from catgrad import compile_module, mse, sgd
from catgrad.errors import UnsupportedOp
from catgrad.frontends.torch import from_torch
from catgrad.frontends.torch.tracing.own_gradients import refused

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

F, nn = torch.nn.functional, torch.nn
graph, parametrizations = torch.autograd.graph, torch.nn.utils.parametrizations
checkpoint, checkpoint_sequential = (
    torch.utils.checkpoint.checkpoint,
    torch.utils.checkpoint.checkpoint_sequential,
)


class Layers(nn.Module):
    """A function of itself and an array, with two linear layers and a buffer."""

    def __init__(self, function):
        super().__init__()
        self.a, self.b, self.function = nn.Linear(4, 4), nn.Linear(4, 4), function
        self.register_buffer("average", torch.ones(4))

    def forward(self, x):
        return self.function(self, x)


def kept(m, x):
    """Results of a block without gradients, with a block inside that has them."""
    with torch.no_grad():
        h = m.a(x)
        with torch.enable_grad():
            k = m.a(x)
    return m.b(x) * h * k


def toggled(m, x):
    torch.set_grad_enabled(False)
    h = m.a(x)
    torch.set_grad_enabled(True)
    return m.b(x) * h


def averaged(m, x):
    """An average by `.data`, as before PyTorch 0.4."""
    h = m.a(x)
    m.average.data.mul_(0.9).add_(h.data.mean(0), alpha=0.1)
    return m.b(h - m.average)


def offloaded(m, x):
    with graph.save_on_cpu():
        return m.b(m.a(x).tanh())


def functional(m, x):
    doubled = {name: 2 * value for name, value in m.a.named_parameters()}
    return m.b(torch.func.functional_call(m.a, doubled, (x,)))


def reentrant(m, x):
    return checkpoint(lambda x: m.b(x).tanh(), m.a(x), use_reentrant=True)


def reentrant_twice(m, x):
    return checkpoint(lambda h: checkpoint(m.b, h.tanh(), use_reentrant=True), m.a(x), use_reentrant=True)


def reentrant_first(m, x):
    """No argument requires a gradient, so PyTorch computes none for the first layer."""
    return m.b(checkpoint(lambda x: m.a(x).tanh(), x, use_reentrant=True))


def quantised(m, x):
    h = m.a(x)
    return m.b(h + (h.round() - h).data)


def returned(m, x):
    """Operations that return their argument, under no_grad too, and reads of it after the block."""
    with torch.no_grad():
        h = m.a.weight.flatten(1).contiguous().to(m.a.weight.dtype) @ x.T
        k = F.dropout(m.b.weight, 0.5, False)
    return m.b(x) * h.T + F.linear(x, m.a.weight) * F.linear(x, k) * (F.linear(x, m.a.weight.detach()))


ALIKE = {
    "returned": lambda: Layers(returned),
    "reentrant": lambda: Layers(reentrant),
    "reentrant_twice": lambda: Layers(reentrant_twice),
    "reentrant_first": lambda: Layers(reentrant_first),
    "not reentrant": lambda: Layers(lambda m, x: checkpoint(m.b, m.a(x), use_reentrant=False)),
    "sequential": lambda: Layers(
        lambda m, x: checkpoint_sequential([m.a, nn.Tanh(), m.b], 2, 2 * m.b(x), use_reentrant=True)
    ),
    "kept": lambda: Layers(kept),
    "toggled": lambda: Layers(toggled),
    "averaged": lambda: Layers(averaged),
    "offloaded": lambda: Layers(offloaded),
    "functional": lambda: Layers(functional),
    "quantised": lambda: Layers(quantised),
    "data": lambda: Layers(lambda m, x: m.b(F.linear(x, m.a.weight.data, m.a.bias))),
    "a leaf": lambda: Layers(lambda m, x: m.b(m.a(x).detach().requires_grad_())),
    "kept gradient": lambda: Layers(lambda m, x: m.b(x) * (h := m.a(x), h.retain_grad())[0]),
    "weight norm": lambda: parametrizations.weight_norm(nn.Linear(4, 4)),
    "spectral norm": lambda: parametrizations.spectral_norm(nn.Linear(4, 4)),
    "orthogonal": lambda: parametrizations.orthogonal(nn.Linear(4, 4), orthogonal_map="cayley"),
    "old spectral norm": lambda: nn.utils.spectral_norm(nn.Linear(4, 4)),
    "synchronised": lambda: nn.Sequential(nn.Linear(4, 4), nn.SyncBatchNorm(4)),
}


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad=True")
@pytest.mark.parametrize("name", ALIKE)
def test_three_steps_and_the_prediction_are_those_of_pytorch(name):
    torch.manual_seed(0)
    module, x = ALIKE[name]().double(), torch.randn(3, 4, dtype=torch.float64)
    learner = compile_module(module, x, sgd(0.1), mse, dynamic=())
    optimiser = torch.optim.SGD(module.parameters(), 0.1)
    for _ in range(3):
        loss = module(x).square().mean()
        np.testing.assert_allclose(learner.step(x.numpy(), np.zeros((3, 4))), loss.item(), rtol=1e-9)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    for name, tensor in module.named_parameters():
        if name in learner.parameters:
            np.testing.assert_allclose(learner.parameters[name], tensor.detach(), rtol=1e-9, atol=1e-12)
    for name, array in learner.buffers.items():
        np.testing.assert_allclose(array, module.state_dict()[name], rtol=1e-9)
    np.testing.assert_allclose(learner.predict(x.numpy()), module.eval()(x).detach(), rtol=1e-9)


def summed(m, x):
    h = m.a(x)
    h.sum().backward(retain_graph=True)
    return m.b(h)


def tripled(m, x):
    h = m.a(x)
    h.grad_fn.register_prehook(lambda gradients: tuple(3 * each for each in gradients))
    return m.b(h)


def doubled(m, x):
    h = m.a(x)
    h.data.mul_(2)
    return m.b(h * h)


def frozen(m, x):
    m.a.requires_grad_(False)
    y = m.b(m.a(x))
    m.a.requires_grad_(True)
    return y


def flagged(m, x):
    m.a.weight.requires_grad = False
    return m.b(m.a(x))


def clipped(m, x):
    m.a.weight.data = m.a.weight.data.clamp(-0.1, 0.1)
    return m.b(m.a(x))


def replaced(m, x):
    m.a.weight = nn.Parameter(2 * m.a.weight)
    return m.b(m.a(x))


def packed(m, x):
    with graph.saved_tensors_hooks(lambda saved: 2 * saved, lambda saved: saved):
        return m.b(m.a(x).tanh())


def accumulated(m, x):
    m.a.weight.register_post_accumulate_grad_hook(lambda weight: None)
    return m.b(m.a(x))


def hooked_parameter():
    module = Layers(lambda m, x: m.b(m.a(x)))
    module.b.weight.register_post_accumulate_grad_hook(lambda weight: None)
    return module


REFUSED = {
    "summed": (lambda: Layers(summed), r"forward itself calls backward\(\).* in summed \("),
    "tripled": (lambda: Layers(tripled), r"reads \.grad_fn.*in tripled \("),
    "frozen": (lambda: Layers(frozen), r"sets requires_grad to False.* in frozen \(.*; freeze parameters"),
    "flagged": (lambda: Layers(flagged), r"sets requires_grad to False.* in flagged \("),
    "doubled": (lambda: Layers(doubled), r"linear is changed after detach\(\) or \.data, in .*line \d+"),
    "clipped": (lambda: Layers(clipped), r"assigns to \.data.* in clipped \("),
    "replaced": (lambda: Layers(replaced), r"replaces the parameter weight.* in replaced \("),
    "packed": (lambda: Layers(packed), r"hooks of saved tensors may change it.*in packed \("),
    "accumulated": (lambda: Layers(accumulated), r"the hook accumulated.*in accumulated \("),
    "hooked": (hooked_parameter, "b.weight has a hook"),
    "channels": (
        lambda: Layers(lambda m, x: nn.CrossMapLRN2d(2)(m.a(x)[:, :, None, None])),
        r"torch.nn.modules._functions.CrossMapLRN2d is a torch.autograd.Function, in <lambda>",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_gradients_are_refused_by_name_and_line(name):
    make, pattern = REFUSED[name]
    with pytest.raises(UnsupportedOp, match=rf"gradient must be that of the operations.*{pattern}"):
        from_torch(make(), torch.randn(3, 4), train=True)


def test_a_parameter_keeps_its_flag_and_its_hooks():
    module = Layers(frozen)
    with pytest.raises(UnsupportedOp):
        from_torch(module, torch.randn(3, 4), train=True)
    assert all(parameter.requires_grad for parameter in module.parameters())
    assert "requires_grad" not in vars(torch.Tensor) and "data" not in vars(torch.Tensor)


def test_a_registered_operation_with_a_gradient_of_its_own_is_refused_by_name():
    @torch.library.custom_op("catgrad_tests::tripled", mutates_args=())
    def tripled(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    tripled.register_fake(torch.empty_like)
    tripled.register_autograd(lambda context, dy: 3 * dy)
    with pytest.raises(UnsupportedOp, match=r"catgrad_tests.tripled.default: .*this one is not, in .*line"):
        from_torch(Layers(lambda m, x: tripled(m.a(x))), torch.randn(3, 4), train=True)


MODULES_WITH_FUNCTIONS = (
    "torch.ao.quantization.fx._decomposed",
    "torch.distributed.nn.functional",
    "torch.distributions.dirichlet",
    "torch.nested",
    "torch.nn.modules._functions",
    "torch.nn.parallel",
    "torch.nn.utils._expanded_weights",
    "torch.utils.checkpoint",
)


def shipped():
    """All classes of PyTorch with a gradient of their own, except those of registered operations."""
    for name in MODULES_WITH_FUNCTIONS:
        importlib.import_module(name)
    found, waiting = {}, [torch.autograd.Function]
    while waiting:
        waiting += (each := waiting.pop()).__subclasses__()
        if each.__module__.startswith("torch.") and each.__module__ != "torch._library.autograd":
            found[f"{each.__module__}.{each.__qualname__}"] = each
    return found


@pytest.mark.skipif(not torch.distributed.is_available(), reason="this PyTorch has no torch.distributed")
def test_all_functions_that_pytorch_ships_are_refused_but_checkpoints():
    classes = shipped()
    assert len(classes) > 40
    del classes["torch.utils.checkpoint.CheckpointFunction"]
    for name, cls in classes.items():
        with refused(nn.Linear(2, 2)), pytest.raises(UnsupportedOp, match=f"{name} is a torch.autograd.Func"):
            cls.apply(torch.ones(2))
