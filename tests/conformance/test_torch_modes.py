"""A module trains by the graph of training, and predicts by that of evaluation, whatever both read."""

from __future__ import annotations

import numpy as np
import pytest

from catgrad import Task, mixed_precision, mse
from catgrad.errors import OptionError
from catgrad.frontends.torch import compile_module, from_torch
from catgrad.learn.optimisers import sgd
from tests.targets import emit

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

from tests.conformance.torch_models import Function  # noqa: E402  # it needs PyTorch
from tests.conformance.torch_modes import ITSELF, MODES, ByMode  # noqa: E402

F, nn = torch.nn.functional, torch.nn


def compiled(name, target="numpy"):
    """Return a learner of one of the modules, with weight decay, and batches of two sizes."""
    torch.manual_seed(0)
    make, shapes, loss = MODES[name]
    module = make().double()
    batches = [[torch.randn(n, *s[1:], dtype=torch.float64) for s in shapes] for n in (5, 5, 4, 5)]
    is_alone = loss is ITSELF or name == "losses"
    inputs, targets = (batches[0], ()) if is_alone else (batches[0][:-1], batches[0][-1])
    optimiser = torch.optim.SGD(module.parameters(), 0.1, momentum=0.9, weight_decay=0.5)
    learner = compile_module(module, tuple(inputs), optimiser, loss, target, targets=targets)
    return module, learner, batches, len(inputs)


IN_C = ("moving average", "target network", "untracked", "large constants", "losses")
CASES = [
    pytest.param(name, target, marks=pytest.mark.long if target == "c" and name not in IN_C else ())
    for name in MODES
    for target in ("numpy", "c")
]


@pytest.mark.covering
@pytest.mark.parametrize(("name", "target"), CASES)
def test_steps_are_those_of_training_and_predictions_those_of_evaluation(name, target):
    """Trained arrays return to the module, which predicts the same."""
    module, learner, batches, count = compiled(name, target)
    replayed = learner.verify(batches)
    replayed.check()
    assert {each.function for each in replayed.comparisons} >= {"loss", "parameters", "predict"}
    for batch in batches:
        learner.step(*batch)
    module.load_state_dict(learner.state_dict())
    inputs = batches[0][:count]
    expected = torch.utils._pytree.tree_leaves(module.eval()(*inputs))
    found = learner.predict(*(x.numpy() for x in inputs))
    for ours, theirs in zip(found if isinstance(found, list) else [found], expected, strict=True):
        np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=1e-9, atol=1e-12)


class Merged(nn.Module):
    """A layer that adds its adapter to its weight when evaluation begins, and reads no mode in forward."""

    def __init__(self):
        super().__init__()
        self.layer, self.adapter = nn.Linear(3, 3), nn.Parameter(torch.randn(3, 3))
        self.is_merged = False

    def train(self, mode=True):
        self.is_merged = not mode
        return super().train(mode)

    def forward(self, x):
        return self.layer(x) if self.is_merged else self.layer(x) + x @ self.adapter


@pytest.mark.parametrize(
    ("make", "count"),
    [
        (lambda: nn.Sequential(nn.Linear(3, 3), nn.Tanh()), 1),
        (lambda: nn.Sequential(nn.Linear(3, 3), nn.Dropout()), 2),
        (lambda: ByMode(lambda m, x: m.a(x), lambda m, x: m.b(x)), 2),
        (Merged, 2),
    ],
)
def test_a_module_that_acts_by_its_mode_is_traced_in_each_and_others_once(make, count, monkeypatch):
    traced, module, x = [], make(), torch.randn(5, 3)
    trace = torch.export.export
    monkeypatch.setattr(torch.export, "export", lambda *a, **b: traced.append(1) or trace(*a, **b))
    imported = from_torch(module, x, train=True)
    assert len(traced) == count
    assert "training" not in vars(nn.Module)
    found = emit(imported.task(sgd(0.1), mse)).load()().learner().predict(x.numpy())
    np.testing.assert_allclose(found, module.eval()(x).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_dropout_that_is_always_on_also_drops_in_predictions():
    module = nn.Sequential(nn.Linear(4, 400), Function(lambda x: F.dropout(x, 0.25)), nn.Dropout(0.9))
    x = torch.randn(50, 4)
    learner = compile_module(module, x, torch.optim.SGD(module.parameters(), 0.1), nn.MSELoss())
    found, expected = learner.predict(x.numpy()), module[0](x).detach().numpy() / 0.75
    kept = found != 0
    assert abs(kept.mean() - 0.75) < 0.01
    np.testing.assert_allclose(found[kept], expected[kept], rtol=1e-5)


def test_predictions_are_in_mixed_precision_too():
    module = ByMode(lambda m, x: m.a(x), lambda m, x: m.b(x))
    x = torch.randn(5, 3)
    task = mixed_precision(from_torch(module, x, train=True, dynamic=("batch",)).task(sgd(0.1), mse))
    found = emit(task, "numpy").load()().learner().predict(x.numpy())
    with torch.autocast("cpu", torch.bfloat16):
        rounded = module.eval()(x).detach().float().numpy()
    assert np.abs(found - module(x).detach().numpy()).max() > 1e-4
    np.testing.assert_allclose(found, rounded, rtol=1e-2, atol=1e-2)


def test_a_module_that_returns_its_loss_needs_no_targets():
    module = ByMode(lambda m, x, y: F.mse_loss(m.a(x), y), lambda m, x, y: m.a(x))
    x, y = torch.randn(5, 3), torch.randn(5, 3)
    learner = compile_module(module, (x, y), torch.optim.SGD(module.parameters(), 0.1), ITSELF)
    learner.verify([[x, y]], steps=2).check()


def test_the_loss_of_a_head_of_training_is_evaluated_without_dropout():
    module = ByMode(lambda m, x: (F.dropout(m.a(x), 0.5, m.training), m.b(x)), lambda m, x: m.a(x))
    x, y = torch.randn(5, 3), torch.randn(5, 3)
    loss = lambda a, b, y: F.mse_loss(a, y) + b.square().mean()
    learner = compile_module(module, x, sgd(0.1), loss, targets=y)
    expected = loss(module.a(x), module.b(x), y).item()
    np.testing.assert_allclose(learner.loss(x.numpy(), y.numpy()), expected, rtol=1e-6)


def test_evaluation_must_have_the_inputs_and_parameters_of_training():
    one = from_torch(nn.Linear(3, 3), torch.randn(2, 3))
    other = from_torch(nn.Linear(2, 3), torch.randn(2, 2))
    with pytest.raises(OptionError, match="must have the inputs of the model in training"):
        Task(one.model, sgd(0.1), mse, inference=other.model)
    more = from_torch(nn.Sequential(nn.Linear(3, 3)), torch.randn(2, 3))
    with pytest.raises(OptionError, match=r"training has no gradient for 0.weight, 0.bias"):
        Task(one.model, sgd(0.1), mse, inference=more.model)
