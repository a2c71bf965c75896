"""Modules in training mode: their dropout, symbolic axes, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from catgrad import Functions, mse
from catgrad.errors import OptionError, UnsupportedOp
from catgrad.frontends.torch import from_torch
from catgrad.learn.optimisers import adamw
from tests.targets import emit

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

from tests.conformance.torch_models import Function  # noqa: E402  # it needs PyTorch

F, nn = torch.nn.functional, torch.nn


class DropPath(nn.Module):
    """Stochastic depth: a residual branch that is left out for some examples in training."""

    def __init__(self, branch, rate):
        super().__init__()
        self.branch, self.rate = branch, rate

    def forward(self, x):
        y = self.branch(x)
        if self.training:
            y = (
                y
                * y.new_empty((x.shape[0], *(1 for _ in x.shape[1:]))).bernoulli_(1 - self.rate)
                / (1 - self.rate)
            )
        return x + y


@pytest.mark.parametrize(
    "call",
    [
        lambda x: F.dropout(x, 0.25, training=True),
        nn.Dropout(0.25),
        nn.Dropout2d(0.25),
        DropPath(nn.Identity(), 0.25),
        lambda x: torch.bernoulli(torch.full_like(x, 0.75)) * x / 0.75,
    ],
    ids=["function", "module", "channels", "depth", "bernoulli"],
)
def test_dropout_keeps_the_mean_and_differs_between_steps(call):
    module = nn.Sequential(nn.Linear(1, 1), call if isinstance(call, nn.Module) else Function(call))
    with torch.no_grad():
        module[0].weight.fill_(1.0), module[0].bias.zero_()
    x = torch.ones(500, 4, 1, 1)
    imported = from_torch(module, x, train=True)
    program = emit(imported.task(adamw(1e-9), mse), "numpy")
    learner = program.load()().learner(seed=3)
    zeros = np.zeros((500, 4, 1, 1), np.float32)
    losses = [float(learner.step(x.numpy(), zeros)) for _ in range(4)]
    assert len(set(losses)) > 2
    wide = 1 + 0.25 / 0.75 if not isinstance(call, DropPath) else 1 + 0.75 * ((1 + 1 / 0.75) ** 2) + 0.25 - 1
    np.testing.assert_allclose(np.mean(losses), wide, rtol=0.1)


def test_dropout_between_recurrent_layers_and_in_attention_trains():
    lstm = nn.LSTM(3, 4, num_layers=2, dropout=0.5, batch_first=True)
    attention = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.5, batch_first=True)
    for module, x in ((lstm, torch.randn(2, 5, 3)), (attention, torch.randn(2, 5, 4))):
        imported = from_torch(module, x, train=True)
        model = imported.task(adamw(1e-2), lambda *y: mse(y[0], y[len(y) // 2]))
        learner = emit(model, "numpy").load()().learner()
        outputs = module.eval()(x)
        outputs = outputs if isinstance(outputs, torch.Tensor) else (outputs[0], *outputs[1])
        targets = [y.detach().numpy() for y in ([outputs] if isinstance(outputs, torch.Tensor) else outputs)]
        assert learner.loss(x.numpy(), *targets) < 1e-8
        assert learner.step(x.numpy(), *targets) > 1e-5


class Positions(nn.Module):
    """A table of positions, of which a sequence reads the first ones."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(8, 3))

    def forward(self, x):
        return x + self.table[: x.shape[1]] + torch.arange(x.shape[1])[:, None]


def test_symbolic_lengths_are_checked_against_tables():
    imported = from_torch(Positions(), torch.randn(2, 5, 3), dynamic=("batch", "time"))
    predict = emit(imported.task(adamw(1e-2), mse), "numpy").load()().learner().predict
    x = torch.randn(3, 8, 3)
    module = Positions()
    module.table.data = torch.tensor(imported.parameters["table"])
    np.testing.assert_allclose(predict(x.numpy()), module(x).detach(), rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="at least"):
        predict(np.zeros((3, 9, 3), np.float32))


FIXED = [
    (lambda x: x.reshape(2, 24), ("batch",), UnsupportedOp, r"batch must be free, but .* fixes it to 2"),
    (lambda x: x * 2 if x.shape[0] > 5 else x, ("batch",), UnsupportedOp, None),
    (lambda x: x * 2 if x.shape[0] % 2 else x, ("batch",), UnsupportedOp, r"same for all sizes.*line \d+"),
    (lambda x: x[:, :, : x.shape[1] // 2], ("batch", "time"), UnsupportedOp, "polynomials"),
    (lambda x: x, {"y": ("batch",)}, OptionError, "an input must be one of"),
    (lambda x: x, "batch", OptionError, r'write \("batch",\)'),
]


@pytest.mark.parametrize(("function", "dynamic", "error", "pattern"), FIXED)
def test_axes_that_a_module_fixes_are_refused(function, dynamic, error, pattern):
    if pattern is None:  # a branch on a bound: the other side is refused when the program runs
        imported = from_torch(Function(function), torch.randn(2, 6, 4), dynamic=dynamic)
        predict = emit(imported.task(adamw(0.1), mse), "numpy").load()().learner().predict
        with pytest.raises(ValueError, match="at least"):
            predict(np.zeros((6, 6, 4), np.float32))
        return
    with pytest.raises(error, match=pattern):
        from_torch(Function(function), torch.randn(2, 6, 4), dynamic=dynamic)


def test_all_refusals_are_listed_at_once():
    class Several(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Sequential(Function(lambda x: torch.linalg.eigh(x)[0]), nn.Sigmoid())

        def forward(self, x):
            return torch.special.bessel_j0(self.inner(x)), torch.special.airy_ai(x)

    with pytest.raises(UnsupportedOp) as caught:
        from_torch(Several(), torch.randn(3, 4, 4))
    for part in ("lacks 3", r"_linalg_eigh.default in inner.0", "bessel_j0", "airy_ai", "line"):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[x.argmax(0) - x.shape[0]].sum(1),
        lambda x: x[x.argmax(0) - x.shape[0], x.argmax(0) - x.shape[1]],
    ],
    ids=["one axis", "two axes"],
)
def test_indices_count_from_the_end_of_symbolic_axes(function):
    module = Function(function)
    imported = from_torch(module, torch.randn(4, 3), dynamic=("batch", "width"))
    [result] = (
        emit(Functions({"predict": imported.model}), "numpy").load()().predict(x := np.eye(5, 3, 1, "f4"))
    )
    np.testing.assert_array_equal(result, module(torch.tensor(x)))
