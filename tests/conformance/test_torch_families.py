"""Models of all families compute the numbers of PyTorch, forward and backward, in emitted code."""

from __future__ import annotations

import functools
import warnings
from importlib.util import find_spec

import pytest

from catgrad.errors import UnsupportedOp
from catgrad.frontends.torch import compile_module, from_torch
from tests.covering import some

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

from tests.conformance.torch_differences import largest_difference  # noqa: E402  # it needs PyTorch
from tests.conformance.torch_families import FAMILIES, QUICK, QUICK_IN_C, made  # noqa: E402

MISSING = [name for name in ("torchvision", "timm", "transformers") if not find_spec(name)]
pytestmark = pytest.mark.skipif(
    bool(MISSING), reason=f"no {', '.join(MISSING)}, which have models of PyTorch"
)

CASES = [
    pytest.param(name, target, marks=() if name in quick else pytest.mark.long)
    for name in FAMILIES
    for target, quick in {"numpy": QUICK, "c": QUICK_IN_C}.items()
]


DRAW_BRANCHES = ("Wav2Vec2",)
"""Families that draw in training which layers they apply, a branch that no term has."""

DEEP_NORMS = ("ResNet-18", "EfficientNet-b0")
"""Families whose last batch norms see two values of the usual inputs, so that all gradients cancel."""

TRAINED = some(FAMILIES, ("MLP", "U-Net", "LSTM", "GPT-2"))


@functools.lru_cache(maxsize=1)
def imported(name):
    """Return the model of a family, its inputs, and the imported term."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of the libraries about their own code
        module, inputs = made(name)
        return module, inputs, from_torch(module, *inputs)


@pytest.mark.parametrize(("name", "target"), CASES)
def test_families_compute_the_numbers_of_pytorch(name, target):
    assert largest_difference(*imported(name), target) <= 1e-4


@pytest.mark.parametrize("name", TRAINED)
def test_families_train_and_then_evaluate_as_in_pytorch(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module, inputs = made(name)
        _stop_dropout(module.train().double())
        inputs = [torch.randn(8, 3, 64, 64)] if name in DEEP_NORMS else inputs
        arrays = tuple(x.double() if x.is_floating_point() else x for x in inputs)
        optimiser = torch.optim.SGD(module.parameters(), 1e-3, momentum=0.9, weight_decay=0.1)
        options = {"targets": (), "dynamic": ()}
        if name in DRAW_BRANCHES:
            with pytest.raises(UnsupportedOp, match="control flow in a module must not depend on data"):
                compile_module(module, arrays, optimiser, _mean_square, **options)
            return
        learner = compile_module(module, arrays, optimiser, _mean_square, **options)
        learner.verify([arrays], steps=2).check()


def _mean_square(y):
    return y.square().mean()


def _stop_dropout(module):
    """Set rates of dropout to 0, as random numbers are not those of PyTorch."""
    for part in module.modules():
        for rate in ("p", "dropout", "attention_dropout", "drop_prob", "dropout_p"):
            if isinstance(getattr(part, rate, None), float):
                setattr(part, rate, 0.0)
