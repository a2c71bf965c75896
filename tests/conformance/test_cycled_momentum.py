"""Momenta that a scheduler of PyTorch changes, and warm-ups of transformers, as parts of emitted steps."""

from __future__ import annotations

import re
from functools import partial
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catgrad import compile_module, verify
from catgrad.errors import OptionError
from catgrad.frontends.torch.schedulers import STEP_TYPE, of_schedulers
from catgrad.frontends.torch.warm_up import MODULE, WARM_UPS, factor_of
from catgrad.programs.program import evaluate
from catgrad.terms.build import build

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")
from tests.conformance.torch_vision import import_torchvision  # noqa: E402  # it needs PyTorch

nn, optim, lr = torch.nn, torch.optim, torch.optim.lr_scheduler

OPTIMISERS = {
    "sgd without momentum": lambda p: optim.SGD(p, 0.1),
    "sgd": lambda p: optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.1),
    "sgd, dampened": lambda p: optim.SGD(p, 0.1, momentum=0.9, dampening=0.5, maximize=True),
    "sgd, nesterov": lambda p: optim.SGD(p, 0.1, momentum=0.9, nesterov=True),
    "rmsprop": lambda p: optim.RMSprop(p, 0.1, momentum=0.9, centered=True),
    "adam": lambda p: optim.Adam(p, 0.1, amsgrad=True),
    "adamw": lambda p: optim.AdamW(p, 0.1, (0.5, 0.9)),
    "adamax": lambda p: optim.Adamax(p, 0.1),
    "nadam": lambda p: optim.NAdam(p, 0.1),
    "radam": lambda p: optim.RAdam(p, 0.1, (0.9, 0.8)),
}
CYCLES = {
    "one cycle": lambda o: lr.OneCycleLR(o, 0.1, total_steps=9),
    "three phases": lambda o: lr.OneCycleLR(
        o, 0.1, total_steps=9, three_phase=True, anneal_strategy="linear"
    ),
    "triangles": lambda o: lr.CyclicLR(o, 0.01, 0.1, 2, 3, mode="exp_range", gamma=0.9, base_momentum=0.3),
}


def batches(count=8):
    return [(torch.randn(5, 3, dtype=torch.float64), torch.randn(5, 2).double()) for _ in range(count)]


class Training:
    """One training in PyTorch, which is continued by a learner."""

    def __init__(self, module, optimizer, scheduler):
        self.module, self.optimizer, self.scheduler, self.data = module, optimizer, scheduler, batches()

    def step(self, x, y):
        self.optimizer.zero_grad()
        nn.functional.mse_loss(self.module(x), y).backward()
        self.optimizer.step()
        self.scheduler.step()

    def is_continued(self, before):
        """Compare the parameters and predictions after each step but the first ones."""
        for x, y in self.data[:before]:
            self.step(x, y)
        inputs = self.data[0][0], self.optimizer, nn.MSELoss()
        learner = compile_module(self.module, *inputs, scheduler=self.scheduler)
        for x, y in self.data[before:]:
            learner.step(x.numpy(), y.numpy())
            self.step(x, y)
            for name, parameter in self.module.named_parameters():
                np.testing.assert_allclose(learner.parameters[name], parameter.detach(), rtol=1e-9)
            predicted = self.module(x).detach()
            np.testing.assert_allclose(learner.predict(x.numpy()), predicted, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("kind", OPTIMISERS)
@pytest.mark.parametrize(("cycle", "before"), [("one cycle", 0), ("three phases", 3), ("triangles", 1)])
def test_a_momentum_is_cycled_as_in_pytorch(kind, cycle, before):
    torch.manual_seed(0)
    module = nn.Linear(3, 2).double()
    optimizer = OPTIMISERS[kind](module.parameters())
    Training(module, optimizer, CYCLES[cycle](optimizer)).is_continued(before)


@pytest.mark.parametrize("kind", ["sgd, dampened", "adam"])
def test_parameters_that_begin_later_have_the_momentum_of_now(kind):
    torch.manual_seed(0)
    module = nn.Linear(3, 2).double()
    module.bias.requires_grad_(False)
    optimizer = OPTIMISERS[kind](module.parameters())
    training = Training(module, optimizer, CYCLES["one cycle"](optimizer))
    for x, y in training.data[:3]:
        training.step(x, y)
    module.bias.requires_grad_(True)
    training.is_continued(0)
