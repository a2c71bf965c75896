"""Momenta that a scheduler of PyTorch changes, and warm-ups of transformers, as parts of emitted steps."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catgrad import compile_module, verify
from catgrad.errors import OptionError
from catgrad.frontends.torch.training.schedulers import of_schedulers
from catgrad.frontends.torch.training.warm_up import MODULE, WARM_UPS

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")
from tests.conformance.test_continued_optimisers import Lion, in_float64  # noqa: E402, F401  # they need it
from tests.conformance.test_continued_schedulers import assert_follows, two_groups  # noqa: E402
from tests.conformance.torch_vision import import_torchvision  # noqa: E402

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
    "muon": lambda p: optim.Muon(p, 0.1),
    "lion": lambda p: Lion(p, 0.1),
}
CYCLES = {
    "one cycle": lambda o: lr.OneCycleLR(o, 0.1, total_steps=9),
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


@pytest.mark.parametrize(("place", "kind"), list(enumerate(OPTIMISERS)))
def test_a_momentum_is_cycled_as_in_pytorch(place, kind):
    cycle, before = [("one cycle", 3), ("triangles", 0)][place % 2]
    torch.manual_seed(0)
    module = nn.Linear(3, 2, bias=kind != "muon").double()
    optimizer = OPTIMISERS[kind](module.parameters())
    Training(module, optimizer, CYCLES[cycle](optimizer)).is_continued(before)


@pytest.mark.parametrize("kind", ["sgd, dampened", "adam"])
def test_parameters_that_begin_later_have_the_momentum_of_now(kind):
    torch.manual_seed(0)
    module = nn.Linear(3, 2).double()
    module.bias.requires_grad_(False)
    optimizer = OPTIMISERS[kind](module.parameters())
    training = Training(module, optimizer, CYCLES["one cycle"](optimizer))
    for _ in range(3):
        training.step(*training.data.pop())
    module.bias.requires_grad_(True)
    training.is_continued(0)


def test_verify_knows_the_momentum():
    torch.manual_seed(0)
    module = nn.Linear(3, 2).float()
    optimizer = optim.AdamW(module.parameters(), 0.1)
    scheduler = lr.CyclicLR(optimizer, 0.01, 0.1, 3)
    data = [(x.float(), y.float()) for x, y in batches()]
    learner = compile_module(module, data[0][0], optimizer, nn.MSELoss(), scheduler=scheduler)
    assert verify(module, learner, data).agrees
    assert optimizer.param_groups[0]["betas"] == (0.9, 0.999)


WARM_UP = dict(num_warmup_steps=st.integers(0, 8))
LENGTH = dict(WARM_UP, num_training_steps=st.integers(9, 40))
SCHEDULES = {
    "constant_schedule": dict(),
    "constant_schedule_with_warmup": WARM_UP,
    "linear_schedule_with_warmup": LENGTH,
    "cosine_schedule_with_warmup": dict(LENGTH, num_cycles=st.sampled_from([0.5, 1, 2.5])),
    "cosine_with_hard_restarts_schedule_with_warmup": dict(LENGTH, num_cycles=st.integers(1, 4)),
    "cosine_with_min_lr_schedule_with_warmup": dict(LENGTH, min_lr_rate=st.sampled_from([0.0, 0.1])),
    "polynomial_decay_schedule_with_warmup": dict(
        LENGTH, lr_end=st.sampled_from([0.0, 1e-7, 0.1]), power=st.sampled_from([0.5, 1.0, 2.0])
    ),
    "inverse_sqrt_schedule": dict(WARM_UP, timescale=st.sampled_from([None, 3, 50])),
}
"""Choices of the options of each function get_... of transformers that is known."""


def warm_ups():
    """Return transformers.optimization, which imports torchvision where it is installed."""
    if find_spec("torchvision"):
        import_torchvision()
    return pytest.importorskip(MODULE, reason="transformers, the other side, is not installed")


@pytest.mark.parametrize("name", SCHEDULES)
@settings(max_examples=8)
@given(data=st.data(), before=st.sampled_from([0, 1, 2, 11]))
def test_warm_ups_of_transformers_are_continued(name, data, before):
    make, optimizer = getattr(warm_ups(), f"get_{name}"), two_groups()
    scheduler = make(optimizer, **data.draw(st.fixed_dictionaries(SCHEDULES[name])))
    assert_follows(optimizer, scheduler, before=before)


def test_every_warm_up_is_one_of_transformers():
    assert vars(warm_ups()).keys() >= WARM_UPS.keys()


@pytest.mark.parametrize("before", [0, 3])
def test_a_training_with_a_warm_up_is_continued(before):
    torch.manual_seed(0)
    module = nn.Linear(3, 2).double()
    optimizer = optim.AdamW(module.parameters(), 0.1)
    Training(module, optimizer, warm_ups().get_cosine_schedule_with_warmup(optimizer, 4, 9)).is_continued(
        before
    )


def test_a_warm_up_is_a_part_of_a_sequence():
    optimizer = two_groups()
    parts = [lr.ConstantLR(optimizer, 0.5, 2), warm_ups().get_inverse_sqrt_schedule(optimizer, 3)]
    assert_follows(optimizer, lr.SequentialLR(optimizer, parts, [4]), before=2)


def look_alike():
    def _get_constant_lambda(_=None):
        return 2

    _get_constant_lambda.__module__ = MODULE
    _get_constant_lambda.__qualname__ = "_get_constant_lambda"
    return _get_constant_lambda


class Factor:
    """A function of the user with a state."""

    def __call__(self, step):
        return 0.5


LINEAR = "_get_linear_schedule_with_warmup_lr_lambda"
FUNCTIONS = {
    "a function of Python": (lambda _: lambda step: 0.9**step, "its function is <lambda> of tests"),
    "an object": (lambda _: Factor(), "its function is Factor of tests"),
    "a look-alike": (lambda _: look_alike(), "its function is _get_constant_lambda of"),
    "a keyword that is missing": (
        lambda known: partial(known._get_inverse_sqrt_schedule_lr_lambda, num_warmup_steps=3),
        "_get_inverse_sqrt_schedule_lr_lambda of .* with num_warmup_steps",
    ),
    "a schedule that is not known": (
        lambda known: partial(
            known._get_wsd_scheduler_lambda,
            num_warmup_steps=1,
            num_stable_steps=2,
            num_decay_steps=3,
            warmup_type="linear",
            decay_type="cosine",
            min_lr_ratio=0.0,
            num_cycles=0.5,
        ),
        "its function is _get_wsd_scheduler_lambda",
    ),
    "a length without an end": (
        lambda known: partial(getattr(known, LINEAR), num_warmup_steps=0, num_training_steps=float("inf")),
        "num_training_steps of _get_linear.* must be a finite number",
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_other_functions_are_refused(name):
    make, pattern = FUNCTIONS[name]
    optimizer = optim.SGD(nn.Linear(2, 2).parameters(), 0.1)
    scheduler = lr.LambdaLR(optimizer, make(warm_ups()))
    with pytest.raises(OptionError, match=pattern):
        of_schedulers([scheduler], 0, 0)


def test_a_polynomial_without_steps_is_refused():
    optimizer = optim.SGD(nn.Linear(2, 2).parameters(), 0.1)
    scheduler = warm_ups().get_polynomial_decay_schedule_with_warmup(optimizer, 5, 5)
    with pytest.raises(OptionError, match="it has 0 steps after 5"):
        of_schedulers([scheduler], 0, 0)
