"""Models of all families compute the numbers of PyTorch, forward and backward, in emitted code."""

from __future__ import annotations

import functools
import warnings
from importlib.util import find_spec

import pytest

from catgrad.frontends.torch import compile_module, from_torch

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


TRAINED = [
    pytest.param(name, marks=() if name in ("MLP", "U-Net", "LSTM", "GPT-2") else pytest.mark.long)
    for name in FAMILIES
]


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
        for part in module.train().modules():  # random numbers are not those of PyTorch
            for rate in ("p", "dropout", "attention_dropout", "drop_prob", "dropout_p"):
                if isinstance(getattr(part, rate, None), float):
                    setattr(part, rate, 0.0)
        optimiser = torch.optim.SGD(module.parameters(), 1e-3, momentum=0.9, weight_decay=0.1)
        learner = compile_module(
            module, tuple(inputs), optimiser, lambda y: y.square().mean(), targets=(), dynamic=()
        )
        learner.verify([inputs], steps=2).check()
