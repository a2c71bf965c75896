"""`catgrad.verify` of a module: the emitted training is PyTorch's, errors are found, nothing is changed."""

from __future__ import annotations

import copy
from functools import partial

import numpy as np
import pytest

import catgrad
from catgrad import compile_module, losses, optimisers
from catgrad.errors import CatgradWarning, OptionError, ShapeError, VerificationError
from catgrad.learn.schedules import cosine
from tests.targets import on

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

from catgrad.frontends.torch.training import criteria, optimiser_options  # noqa: E402  # they need PyTorch
from catgrad.frontends.torch.training import optimisers as theirs  # noqa: E402

nn, optim = torch.nn, torch.optim


def convolutional():
    """A net whose first bias has a gradient that is 0 but for rounding, and which Adam moves nevertheless."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(12, 3))


def image_batches(count=2):
    torch.manual_seed(1)
    return [(torch.randn(4 + k, 1, 4, 4), torch.randint(0, 3, (4 + k,))) for k in range(count)]


@pytest.fixture(scope="module")
def example():
    module = convolutional()
    optimiser = optim.AdamW(module.parameters(), 1e-2)
    learner = compile_module(module, image_batches()[0][0], optimiser, nn.CrossEntropyLoss())
    return module, optimiser, learner


def values(module, optimiser, learner):
    held = [*module.state_dict().values(), *module.parameters()]
    tables = [a for t in (learner.parameters, learner.buffers, learner.state) for a in t.values()]
    modes = [each.training for each in module.modules()]
    return copy.deepcopy([*map(np.asarray, (x.detach() for x in held)), *map(np.asarray, tables), modes])


@on("numpy", "torch", "jax", "c", long=("jax",))
def test_every_target_trains_as_pytorch_does(target):
    module = convolutional()
    optimiser, criterion = optim.AdamW(module.parameters(), 1e-2), nn.CrossEntropyLoss()
    learner = compile_module(module, image_batches()[0][0], optimiser, criterion, target)
    replay = catgrad.verify(module, learner, image_batches(), steps=5)
    replay.check()
    assert (replay.agrees, replay.steps, replay.target) == (True, 5, target)
    compared = {(each.function, each.step) for each in replay.comparisons}
    assert compared == {
        *((what, step) for what in ("loss", "grads") for step in range(1, 6)),
        *((what, step) for what in ("parameters", "buffers") for step in range(6)),
        ("predict", 0),
        ("predict", 5),
    }
    named = {each.result for each in replay.comparisons if each.function in ("parameters", "buffers")}
    assert named == set(module.state_dict())


def test_nothing_is_changed(example):
    _, optimiser, learner = example
    before = values(*example)
    assert learner.verify(iter(image_batches()), steps=2).agrees
    with pytest.raises(Exception, match="shape|channels"):
        learner.verify([*image_batches(), (torch.randn(4, 2, 4, 4), torch.zeros(4, dtype=torch.int64))])
    for one, other in zip(before, values(*example), strict=True):
        np.testing.assert_array_equal(one, other)
    assert not optimiser.state


def test_the_table_and_the_plot_have_each_kind(example, tmp_path):
    replay = example[2].verify(image_batches())
    first, *rows = str(replay).splitlines()
    assert first.split() == [
        "compared",
        "arrays",
        "worst",
        "step",
        "largest",
        "difference",
        "allowed",
        "agrees",
    ]
    assert [row.split()[0] for row in rows] == ["parameters", "buffers", "predict", "loss", "grads"]
    assert np.isnan(replay.largest("loss")[0]) and max(replay.largest("loss")[1:]) < 1e-5
    replay.plot(tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_a_training_goes_on_from_the_state_of_the_optimiser():
    module, x = nn.Linear(3, 2).double(), torch.randn(5, 3, dtype=torch.float64)
    optimiser = optim.Adam(module.parameters(), 1e-2)
    for _ in range(3):
        module(x).square().sum().backward()
        optimiser.step()
    learner = compile_module(module, x, optimiser, nn.MSELoss())
    learner.verify([(x, torch.zeros(5, 2, dtype=torch.float64))], steps=3).check()


WRONG = [
    (lambda m: optim.AdamW(m.parameters(), 2e-2), None, "after step 1, in parameters"),
    (lambda m: optim.AdamW(m.parameters(), 1e-2, weight_decay=0.5), None, "after step 1, in parameters"),
    (None, nn.CrossEntropyLoss(label_smoothing=0.1), "after step 1, in (loss|grads|parameters)"),
]


@pytest.mark.parametrize(("optimizer", "loss", "pattern"), WRONG)
def test_another_training_is_found_out(example, optimizer, loss, pattern):
    module, _, learner = example
    replay = catgrad.verify(
        module, learner, image_batches(), optimizer=optimizer and optimizer(module), loss=loss
    )
    assert not replay.agrees
    with pytest.raises(VerificationError, match=rf"{pattern}.*report it with the module"):
        replay.check()


def test_other_weights_are_found_out_before_the_first_step(example):
    module, _, learner = example
    other = copy.deepcopy(module)
    with torch.no_grad():
        other[4].bias += 1
    replay = catgrad.verify(
        other, learner, image_batches(), optimizer=optim.SGD(other.parameters()), loss=nn.CrossEntropyLoss()
    )
    with pytest.raises(VerificationError, match="before the first step.*load_state_dict"):
        replay.check()


LOSSES = {
    "mse": losses.mse,
    "l1": partial(losses.l1, reduction="sum"),
    "huber": partial(losses.huber, delta=0.5),
    "bce_with_logits": losses.bce_with_logits,
    "kl_div": losses.kl_div,
    "nll": losses.nll,
    "cross_entropy": partial(losses.cross_entropy, label_smoothing=0.1, weight=[1.0, 2.0, 3.0]),
}


@pytest.mark.parametrize("name", LOSSES)
def test_each_loss_of_catgrad_has_a_counterpart(name):
    module, x = nn.Linear(2, 3), torch.randn(4, 5, 2)
    y = torch.randint(0, 3, (4, 5)) if name in ("nll", "cross_entropy") else torch.rand(4, 5, 3)
    learner = compile_module(module, x, optimisers.sgd(0.1), LOSSES[name])
    learner.verify([(x, y)]).check()


OPTIONS = {
    "sgd": {"momentum": 0.5, "nesterov": True}, "adam": {"beta1": 0.8, "amsgrad": True}, "adamw": {},
    "rmsprop": {"centred": True}, "adamax": {"epsilon": 1e-6}, "nadam": {}, "radam": {}, "adagrad": {},
    "adadelta": {}, "asgd": {}, "rprop": {},
}  # fmt: skip


@pytest.mark.parametrize("name", OPTIONS)
def test_each_optimiser_of_catgrad_has_a_counterpart(name):
    ours = getattr(optimisers, name)(0.125, **OPTIONS[name])
    peer = theirs.counterpart(ours, nn.Linear(2, 2).parameters())
    again = optimiser_options.of_group(f"torch.optim.{type(peer).__name__}", peer.param_groups[0])
    assert again.name == ours.name and dict(again.settings) == dict(ours.settings)


@pytest.mark.parametrize(
    "ours",
    [
        optimisers.sgd(cosine(0.1, 10)),
        optimisers.clipped(optimisers.sgd(0.1), 1.0),
        optimisers.lion(0.1),
        optimisers.grouped(lambda p: optimisers.sgd(0.1)),
    ],
    ids=["schedule", "clipped", "lion", "grouped"],
)
def test_other_optimisers_must_be_given(ours):
    with pytest.raises(OptionError, match=r"has no counterpart; pass optimizer="):
        theirs.counterpart(ours, nn.Linear(2, 2).parameters())


def test_a_loss_without_counterpart_must_be_given():
    with pytest.raises(OptionError, match="has no counterpart; pass loss="):
        criteria.counterpart(catgrad.ops.sum)


def test_dropout_is_refused_by_name():
    module = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    x, y = torch.randn(3, 2), torch.randn(3, 2)
    learner = compile_module(module, x, optimisers.sgd(0.1), losses.mse)
    with pytest.raises(OptionError, match="must draw no random numbers.*dropout in 1; compile it with prob"):
        learner.verify([(x, y)])
    learner = compile_module(module, x, optimisers.sgd(0.1), losses.mse, train=False)
    learner.verify([(x, y)]).check()


def test_parameters_that_are_not_trained_stay():
    module, x = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2)), torch.randn(4, 2)
    learner = compile_module(module, x, optimisers.adam(0.1), losses.mse, trainable="2.*")
    replay = learner.verify([(x, torch.randn(4, 2))], steps=3)
    replay.check()
    assert {each.result for each in replay.comparisons if each.function == "grads"} == {"2.weight", "2.bias"}


class Narrow(nn.Linear):
    """A module that is not one of float64."""

    def forward(self, x):
        return super().forward(x.float())


def test_a_module_that_fails_in_float64_is_compared_without_it():
    module, x = Narrow(2, 2), torch.randn(3, 2)
    learner = compile_module(module, x, optimisers.sgd(0.1), losses.mse)
    with pytest.warns(CatgradWarning, match="fails in float64"):
        replay = learner.verify([(x, torch.randn(3, 2))])
    replay.check()


def test_unknown_parts_are_asked_for(example):
    module, _, learner = example
    plain, batches = learner.learner, image_batches()
    for arguments, pattern in [
        ((module, plain, batches), "the optimizer must be known"),
        ((convolutional()[4], learner, batches), "must have the parameters of the module"),
        ((convolutional(), learner, batches), "must be one of the module's parameters"),
        ((module, learner, []), "there must be a batch"),
        ((learner,), "must be an Artifact, or a torch.nn.Module"),
    ]:
        with pytest.raises(OptionError, match=pattern):
            catgrad.verify(*arguments)
    with pytest.raises(ShapeError, match="a tuple of inputs and targets"):
        learner.verify([torch.randn(4, 1, 4, 4)])
    given = {"optimizer": optim.AdamW(module.parameters(), 1e-2), "loss": nn.CrossEntropyLoss()}
    catgrad.verify(module, plain, batches, **given).check()


def test_an_artifact_is_verified_by_the_same_name(example):
    assert catgrad.verify(example[2].artifact, seed=1).agrees


@on("numpy", "c")
def test_a_copy_of_a_learner_trains_alone(target):
    module, x = nn.Linear(2, 2), torch.randn(3, 2)
    learner = compile_module(module, x, optimisers.sgd(0.1), losses.mse, target)
    other = copy.deepcopy(learner)
    other.step(x.numpy(), np.ones((3, 2), np.float32))
    assert type(other) is type(learner) and other.module is module
    np.testing.assert_array_equal(learner.parameters["weight"], module.weight.detach())
    assert (other.parameters["weight"] != learner.parameters["weight"]).any()
