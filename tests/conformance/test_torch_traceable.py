"""Modules whose trace would fix a size or read data: what computes the same for all batches, or a warning."""

from __future__ import annotations

import numpy as np
import pytest

from catgrad import compile_module
from catgrad.errors import CatgradWarning, FixedSize, UnsupportedOp
from catgrad.frontends.torch import from_torch

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

from tests.conformance.torch_models import Function  # noqa: E402  # it needs PyTorch

nn, functional = torch.nn, torch.nn.functional


class Fixing(nn.Module):
    """A layer, and as many numbers as the batch has rows, by len(), which PyTorch reads as a number."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x) + torch.arange(len(x))[:, None]


def learner_of(module, x, **options):
    return compile_module(module, x, torch.optim.SGD(module.parameters(), 0.1), nn.MSELoss(), **options)


FIXING = {
    "the number of rows": lambda x: x + torch.arange(len(x))[:, None],
    "an axis of any size": lambda x: x.squeeze(0),
    "half the rows": lambda x: x[: x.shape[0] // 2],
}


@pytest.mark.parametrize("name", FIXING)
def test_a_module_that_fixes_its_batch_is_refused_by_a_type_of_its_own(name):
    module, x = Function(FIXING[name]), torch.randn(5, 4)
    with pytest.raises(FixedSize):
        from_torch(module, x, dynamic=("batch",))
    assert from_torch(module, x).inputs


def test_a_module_that_fixes_its_batch_is_compiled_for_that_of_the_examples_with_a_warning():
    x = torch.randn(5, 4)
    with pytest.warns(CatgradWarning, match="the size of the batch is fixed.*batch must be free.*line"):
        learner = learner_of(Fixing(), x)
    learner.verify([(x, x)], steps=2).check()
    with pytest.raises(UnsupportedOp, match="batch must be free"):
        learner_of(Fixing(), x, dynamic=("batch",))


def test_products_of_three_factors_keep_a_symbolic_axis():
    x = torch.randn(5, 6, 4, dtype=torch.float64)
    module = Function(lambda x: torch.einsum("bld,bln,bld->bdn", x, x[..., :3], x.cos()))
    imported = from_torch(module, x, dynamic=("batch",))
    assert str(imported.model.source.table[0].shape[0]) == "batch"


@pytest.mark.parametrize("is_weighted", [False, True])
def test_counts_of_a_known_length(is_weighted):
    labels, weights = torch.tensor([0, 2, 2, 4]), torch.randn(4)
    module = Function(lambda i, w: torch.bincount(i, w if is_weighted else None, minlength=6) * w.sum())
    imported = from_torch(module, labels, weights)
    from catgrad.programs.program import evaluate

    [found] = evaluate(imported.model, labels.numpy(), weights.numpy())
    np.testing.assert_allclose(found, module(labels, weights), rtol=1e-6)


def test_a_module_with_weight_norm_is_verified_though_pytorch_does_not_copy_it():
    with pytest.warns(FutureWarning):
        module = nn.Sequential(nn.utils.weight_norm(nn.Linear(4, 4)), nn.Tanh())
    x = torch.randn(5, 4)
    learner_of(module, x).verify([(x, x)], steps=3).check()


def test_a_prediction_by_pytorch_keeps_no_change_of_a_buffer():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.register_buffer("average", torch.zeros(4))

        def forward(self, x):
            with torch.no_grad():
                self.average.mul_(0.9).add_(0.1 * x.mean(0))
            return self.linear(x) - self.average

    x = torch.randn(5, 4)
    learner_of(Counting(), x).verify([(x, x)], steps=3).check()
