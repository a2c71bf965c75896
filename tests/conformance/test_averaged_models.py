"""Averaged models of torch.optim.swa_utils and timm are continued: their weights, counts and decays."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from catgrad import compile_module, verify
from catgrad.errors import OptionError
from catgrad.learn import optimisers
from catgrad.types import as_numpy
from tests.targets import on

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")
nn, optim, swa_utils = torch.nn, torch.optim, torch.optim.swa_utils


def timm(name, module, **options):
    """Return an averaged model of timm, loaded from its file, unless it is loaded: it needs torchvision."""
    if (loaded := sys.modules.get("timm.utils.model_ema")) is not None:
        return getattr(loaded, name)(module, **options)
    found = importlib.util.find_spec("timm")
    if found is None:
        pytest.skip("timm, the other side of the comparison, is not installed")
    file = Path(found.origin).parent / "utils" / "model_ema.py"
    spec = importlib.util.spec_from_file_location("timm.utils.model_ema", file)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return getattr(loaded, name)(module, **options)


AVERAGES = {
    "mean": lambda m: swa_utils.AveragedModel(m),
    "mean of one": lambda m: swa_utils.AveragedModel(m, avg_fn=swa_utils.get_swa_avg_fn()),
    "mean of many": lambda m: swa_utils.AveragedModel(m, multi_avg_fn=swa_utils.get_swa_multi_avg_fn()),
    "of one": lambda m: swa_utils.AveragedModel(m, avg_fn=swa_utils.get_ema_avg_fn(0.8)),
    "of many": lambda m: swa_utils.AveragedModel(m, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.8)),
    "version 2": lambda m: timm("ModelEmaV2", m, decay=0.8),
    "version 3": lambda m: timm("ModelEmaV3", m, decay=0.8),
    "warm-up": lambda m: timm("ModelEmaV3", m, decay=0.8, use_warmup=True, min_decay=0.1),
    "later": lambda m: timm("ModelEmaV3", m, decay=0.8, update_after_step=2),
    "warm-up later": lambda m: timm(
        "ModelEmaV3", m, use_warmup=True, warmup_gamma=2.0, warmup_power=0.75, update_after_step=4
    ),
}

OPTIMIZERS = {
    "sgd": lambda parameters: optim.SGD(parameters, 0.3),
    "momentum": lambda parameters: optim.SGD(parameters, 0.3, momentum=0.9),
    "adamw": lambda parameters: optim.AdamW(parameters, 0.05),
}


class Training:
    """A module that PyTorch trains, with its average from step `begin` on."""

    def __init__(self, average, optimizer="adamw", begin=0, module=None):
        torch.manual_seed(0)
        self.module = module or nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
        self.averaged = AVERAGES[average](self.module)
        self.optimizer = OPTIMIZERS[optimizer](self.module.parameters())
        self.batches = [(torch.randn(5, 3), torch.randn(5, 2)) for _ in range(12)]
        self.begin, self.count = begin, 0

    def step(self):
        x, y = self.batches[self.count]
        self.optimizer.zero_grad()
        loss = nn.functional.mse_loss(self.module(x), y)
        loss.backward()
        self.optimizer.step()
        self.count += 1
        if self.count > self.begin:
            self.average()
        return loss.item()

    def average(self):
        if hasattr(self.averaged, "update_parameters"):
            self.averaged.update_parameters(self.module)
        elif hasattr(self.averaged, "get_decay"):
            self.averaged.update(self.module, step=self.count)
        else:
            self.averaged.update(self.module)

    def compiled(self, target="numpy", **options):
        return compile_module(
            self.module,
            self.batches[0][0],
            self.optimizer,
            nn.MSELoss(),
            target,
            averaged=self.averaged,
            **options,
        )

    def continues(self, learner, steps=5):
        """Make further steps on both sides, and compare what each has after each."""
        for _ in range(steps):
            x, y = self.batches[self.count]
            np.testing.assert_allclose(learner.step(x.numpy(), y.numpy()), self.step(), rtol=1e-5)
            predicted = self.averaged.module.eval()(x).detach()
            np.testing.assert_allclose(as_numpy(learner.predict(x.numpy())), predicted, rtol=1e-4, atol=1e-6)
            weights, means = (dict(each.named_parameters()) for each in (self.module, self.averaged.module))
            for name, p in learner.parameters.items():
                mean, lead = as_numpy(p), as_numpy(learner.state[f"lead.{name}"])
                np.testing.assert_allclose(mean, means[name].detach(), rtol=1e-4, atol=1e-6)
                np.testing.assert_allclose(mean + lead, weights[name].detach(), rtol=1e-4, atol=1e-6)


@pytest.mark.covering
@pytest.mark.parametrize("before", [0, 1, 3])
@pytest.mark.parametrize("average", AVERAGES)
def test_averages_are_continued(average, before):
    training = Training(average)
    for _ in range(before):
        training.step()
    learner = training.compiled(dynamic=())
    for name, p in training.averaged.module.named_parameters():
        assert np.array_equal(learner.parameters[name], p.detach())
    training.continues(learner)


@pytest.mark.covering
@pytest.mark.parametrize("begin", [1, 2, 4])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("average", ["mean", "of many"])
def test_averages_have_counts_of_their_own(average, optimizer, begin):
    training = Training(average, optimizer, begin)
    for _ in range(2):
        training.step()
    training.begin = 0  # from now on, each step is averaged
    training.continues(training.compiled(dynamic=()))


@pytest.mark.parametrize("optimizer", ["sgd", "momentum"])
@pytest.mark.parametrize("average", ["version 2", "version 3"])
def test_averages_without_a_count_need_none_of_the_optimiser(average, optimizer):
    training = Training(average, optimizer)
    for _ in range(3):
        training.step()
    training.continues(training.compiled(dynamic=()))


@on("torch", "c", "javascript", long=("javascript",))
def test_other_targets_continue_averages(target):
    training = Training("mean")
    for _ in range(2):
        training.step()
    training.continues(training.compiled(target))


@pytest.mark.parametrize("average", ["mean", "of many", "version 2", "warm-up later"])
def test_a_replay_averages_too(average):
    training = Training(average)
    for _ in range(2):
        training.step()
    learner = training.compiled(dynamic=())
    assert verify(training.module, learner, training.batches[2:], steps=5).agrees


def test_statistics_of_batches_are_those_of_training():
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    training = Training(
        "mean", "sgd", module=module
    )  # a bias before batch norm has gradients of rounding errors
    training.step()
    training.continues(training.compiled(dynamic=()))


def test_a_scheduler_is_continued_beside_an_average():
    training = Training("mean")
    scheduler = optim.lr_scheduler.ExponentialLR(training.optimizer, 0.5)
    training.step(), scheduler.step()
    learner = training.compiled(dynamic=(), scheduler=scheduler)
    for _ in range(4):
        training.continues(learner, 1)
        scheduler.step()


def test_an_average_may_follow_one_of_our_optimisers():
    training = Training("of many", "sgd")
    learner = compile_module(
        training.module, training.batches[0][0], optimisers.sgd(0.3), nn.MSELoss(), averaged=training.averaged
    )
    training.continues(learner)


def own_function(mean, weights, count):
    return mean


def adapted(module):
    kind = type("Averaged", (swa_utils.AveragedModel,), {"update_parameters": lambda *_: None})
    return kind(module)


def moved(module):
    averaged = swa_utils.AveragedModel(module)
    with torch.no_grad():
        averaged.module[0].weight.add_(1.0)
    return averaged


def frozen(module):
    averaged = moved(module)
    module[0].weight.requires_grad_(False)
    return averaged


NORM = dict(use_buffers=True)
REFUSED = {
    "a function": (lambda m: swa_utils.AveragedModel(m, avg_fn=own_function), "it is own_function"),
    "a decay of 1": (
        lambda m: swa_utils.AveragedModel(m, avg_fn=swa_utils.get_ema_avg_fn(1.0)),
        "decay must lie in",
    ),
    "a method": (adapted, "overrides update_parameters"),
    "a class": (lambda m: nn.Linear(3, 2), "Linear has none"),
    "another module": (lambda m: swa_utils.AveragedModel(nn.Linear(3, 2)), "0.bias differs"),
    "another dtype": (lambda m: swa_utils.AveragedModel(m).double(), "0.bias differs"),
    "buffers": (lambda m: swa_utils.AveragedModel(m, **NORM), "averages buffers too"),
    "buffers of timm": (lambda m: timm("ModelEmaV2", m), "averages buffers too"),
    "a frozen parameter": (frozen, "0.weight differs"),
    "a warm-up without a count": (
        lambda m: timm("ModelEmaV3", moved(m).module, use_warmup=True, exclude_buffers=True),
        "there are averages, and no number of steps",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_averages_are_refused(name):
    make, pattern = REFUSED[name]
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    averaged = make(module)
    optimizer = optim.SGD(module.parameters(), 0.1)
    with pytest.raises(OptionError, match=pattern):
        compile_module(module, torch.randn(5, 3), optimizer, nn.MSELoss(), averaged=averaged)


def test_a_parameter_without_an_optimiser_is_its_average():
    module = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    optimizer = optim.SGD(module[1].parameters(), 0.1)
    with pytest.raises(OptionError, match=r"0\.weight differs"):
        compile_module(module, torch.randn(5, 3), optimizer, nn.MSELoss(), averaged=moved(module))
