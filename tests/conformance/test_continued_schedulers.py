"""Schedulers of PyTorch that are continued, step by step, in emitted programs; and those that are refused."""

from __future__ import annotations

import warnings
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from catgrad import compile_module, verify
from catgrad.errors import OptionError
from catgrad.frontends.torch.training.schedulers import FORMULAS, STEP_TYPE, of_schedulers
from catgrad.programs.program import evaluate
from catgrad.terms.build import build

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")
nn, optim, lr = torch.nn, torch.optim, torch.optim.lr_scheduler

COUNT, FACTOR, SHARE = st.integers(1, 9), st.floats(0.1, 1.2), st.floats(0.05, 1.0)
STEPS = 30

OPTIONS = {
    "StepLR": dict(step_size=COUNT, gamma=FACTOR),
    "MultiStepLR": dict(milestones=st.lists(st.integers(0, 20), min_size=1, max_size=4), gamma=FACTOR),
    "ConstantLR": dict(factor=SHARE, total_iters=COUNT),
    "LinearLR": dict(start_factor=SHARE, end_factor=st.floats(0.0, 1.0), total_iters=COUNT),
    "ExponentialLR": dict(gamma=FACTOR),
    "PolynomialLR": dict(total_iters=COUNT, power=st.floats(0.5, 3.0)),
    "CosineAnnealingLR": dict(T_max=COUNT, eta_min=st.sampled_from([0.0, 0.01, 0.5])),
    "CosineAnnealingWarmRestarts": dict(T_0=COUNT, T_mult=st.integers(1, 3), eta_min=st.just(0.02)),
    "CyclicLR": dict(
        base_lr=st.sampled_from([0.0, 0.1]), max_lr=st.just(0.4), step_size_up=COUNT, step_size_down=COUNT,
        mode=st.sampled_from(["triangular", "triangular2", "exp_range"]), gamma=st.just(0.95),
        cycle_momentum=st.booleans(), base_momentum=st.sampled_from([0.2, 0.8]),
    ),
    "OneCycleLR": dict(
        max_lr=st.sampled_from([0.1, 0.7]), total_steps=st.integers(STEPS, 40), pct_start=st.floats(0, 1),
        anneal_strategy=st.sampled_from(["cos", "linear"]), div_factor=st.floats(1, 25),
        final_div_factor=st.floats(1, 100), three_phase=st.booleans(), cycle_momentum=st.booleans(),
        base_momentum=st.sampled_from([0.5, 0.85]),
    ),
}  # fmt: skip
"""Choices of the options of each class of torch.optim.lr_scheduler."""

OTHERS = {"SequentialLR", "ChainedScheduler", "LambdaLR"}
BASE = st.sampled_from([0.3, 1e-3, 0.0])


def two_groups(first=0.3, kind=optim.SGD):
    parameters = [nn.Parameter(torch.zeros(1)) for _ in range(2)]
    groups = [{"params": [parameters[0]]}, {"params": [parameters[1]], "lr": 2 * first}]
    return kind(groups, lr=first)


def stepped(optimizer, schedulers):
    optimizer.step()
    for each in schedulers:
        each.step()


def first_of(option):
    return option[0] if isinstance(option, tuple) else option


def terms(options):
    return {name: build(first_of(option).rate, [STEP_TYPE]) for name, option in options.items()}


def assert_follows(optimizer, *schedulers, before, tolerance=1e-9):
    """Compare the options of both groups that change with those of PyTorch, from a step on."""
    for _ in range(before):
        stepped(optimizer, schedulers)
    begin = before // 2  # the count of the optimiser may be another than that of the scheduler
    ours = [terms(of_schedulers(schedulers, group, begin)) for group in range(2)]
    for step in range(begin, begin + STEPS - before):
        for group, options in zip(optimizer.param_groups, ours, strict=True):
            for name, term in options.items():
                [value] = evaluate(term, np.float64(step))
                said = f"{name} at {step}"
                np.testing.assert_allclose(value, first_of(group[name]), tolerance, atol=1e-12, err_msg=said)
        if step < begin + STEPS - before - 1:
            stepped(optimizer, schedulers)


def test_the_law_has_every_scheduler():
    assert OPTIONS.keys() | OTHERS == FORMULAS.keys()


@pytest.mark.parametrize("kind", OPTIONS)
@settings(max_examples=15)
@given(
    data=st.data(),
    first=BASE,
    before=st.sampled_from([0, 1, 2, 11, 20]),
    of=st.sampled_from([optim.SGD, optim.Adam]),
)
def test_schedulers_are_continued(kind, data, first, before, of):
    options, optimizer = data.draw(st.fixed_dictionaries(OPTIONS[kind])), two_groups(first, of)
    if kind == "OneCycleLR":
        assume(abs(options["pct_start"] * options["total_steps"] - 1) > 1e-6)
    assert_follows(optimizer, getattr(lr, kind)(optimizer, **options), before=before, tolerance=1e-7)


FACTORS = ["StepLR", "MultiStepLR", "ConstantLR", "LinearLR", "ExponentialLR", "PolynomialLR"]


def several(data, optimizer, kinds):
    chosen = data.draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=3))
    return [
        getattr(lr, kind)(optimizer, **data.draw(st.fixed_dictionaries(OPTIONS[kind]))) for kind in chosen
    ]


@pytest.mark.parametrize("way", ["chained", "one after the other"])
@settings(max_examples=40)
@given(data=st.data(), before=st.sampled_from([0, 1, 11]))
def test_factors_are_multiplied(way, data, before):
    optimizer = two_groups()
    every = several(data, optimizer, FACTORS)
    schedulers = [lr.ChainedScheduler(every)] if way == "chained" else every
    assert_follows(optimizer, *schedulers, before=before)


@settings(max_examples=40)
@given(data=st.data(), before=st.sampled_from([0, 1, 11]))
def test_schedulers_follow_each_other(data, before):
    optimizer = two_groups()
    every = several(data, optimizer, [*FACTORS, "CosineAnnealingLR", "CosineAnnealingWarmRestarts"])
    gaps = data.draw(st.lists(COUNT, min_size=len(every) - 1, max_size=len(every) - 1))
    milestones = [sum(gaps[: k + 1]) for k in range(len(gaps))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of PyTorch's, for its own use of step(0)
        scheduler = lr.SequentialLR(optimizer, every, milestones)
        assert_follows(optimizer, scheduler, before=before, tolerance=1e-7)


CASES = {
    "a rise from nearly 0": lambda o: lr.LinearLR(o, 1e-3, total_iters=5),
    "one cycle": lambda o: lr.OneCycleLR(o, 0.1, total_steps=12, cycle_momentum=False),
    "a rise, then a cosine": lambda o: lr.SequentialLR(
        o, [lr.LinearLR(o, 0.1, total_iters=3), lr.CosineAnnealingLR(o, 9)], [3]
    ),
    "a chain": lambda o: lr.ChainedScheduler([lr.ConstantLR(o, 0.1, 4), lr.ExponentialLR(o, 0.9)]),
    "a rate of 0": lambda o: lr.CyclicLR(o, 0.0, 0.1, 3, cycle_momentum=False),
}
OPTIMISERS = {
    "sgd": lambda p: optim.SGD(p, 0.1),
    "dampened": lambda p: optim.SGD(p, 0.1, momentum=0.9, dampening=0.5),
    "adamw": lambda p: optim.AdamW(p, 0.1),
    "rprop": lambda p: optim.Rprop(p, 0.1),
}


def batches(count=8):
    return [(torch.randn(5, 3, dtype=torch.float64), torch.randn(5, 2).double()) for _ in range(count)]


@pytest.mark.covering
@pytest.mark.parametrize("before", [0, 3])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("kind", OPTIMISERS)
def test_a_training_with_a_scheduler_is_continued(kind, name, before):
    torch.manual_seed(0)
    module, data = nn.Linear(3, 2).double(), batches()
    optimizer = OPTIMISERS[kind](module.parameters())
    scheduler = CASES[name](optimizer)

    def step(x, y):
        optimizer.zero_grad()
        nn.functional.mse_loss(module(x), y).backward()
        stepped(optimizer, [scheduler])

    for x, y in data[:before]:
        step(x, y)
    learner = compile_module(module, data[0][0], optimizer, nn.MSELoss(), scheduler=scheduler)
    for x, y in data[before:]:
        learner.step(x.numpy(), y.numpy())
        step(x, y)
        np.testing.assert_allclose(learner.parameters["weight"], module.weight.detach(), rtol=1e-7)


def test_verify_knows_the_scheduler():
    module, data = nn.Linear(3, 2).double(), batches(6)
    matrix, bias = optim.SGD([module.weight], 0.1, momentum=0.5), optim.AdamW([module.bias], 0.1)
    schedulers = [lr.ExponentialLR(bias, 0.5), lr.LinearLR(matrix, 0.1, total_iters=4)]
    learner = compile_module(module, data[0][0], [matrix, bias], nn.MSELoss(), scheduler=schedulers)
    rates = [group["lr"] for each in (matrix, bias) for group in each.param_groups]
    replay = verify(module, learner, data)
    assert replay.agrees and max(replay.largest("parameters")) < 1e-9
    assert rates == [group["lr"] for each in (matrix, bias) for group in each.param_groups]
    assert [each.last_epoch for each in schedulers] == [0, 0]


def own(optimizer):
    return type("StepLR", (lr.StepLR,), {"get_lr": lambda self: [0.1]})(optimizer, 3)


def by_hand(optimizer):
    scheduler = lr.StepLR(optimizer, 3)
    optimizer.param_groups[0]["lr"] = 0.05
    return scheduler


def momentum_by_hand(optimizer):
    scheduler = lr.OneCycleLR(optimizer, 0.1, total_steps=9)
    optimizer.param_groups[0]["momentum"] = 0.5
    return scheduler


REFUSED = {
    "nothing": (lambda o: lr.StepLR(o, 3) and None, "scheduler of torch.optim.SGD must be given too"),
    "a function": (lambda o: lr.LambdaLR(o, lambda t: 0.9**t), "its function is <lambda> of tests"),
    "a factor": (lambda o: lr.MultiplicativeLR(o, lambda t: 0.9), "MultiplicativeLR has none"),
    "a plateau": (lambda o: lr.ReduceLROnPlateau(o), "ReduceLROnPlateau has none.*plateau=Plateau"),
    "a class of the user": (own, "StepLR overrides get_lr of torch.optim.lr_scheduler.StepLR"),
    "a momentum of 0": (
        lambda o: lr.OneCycleLR(o, 0.1, total_steps=9, base_momentum=0.0),
        "and above 0 where PyTorch has no update.*OneCycleLR moves it between 0.95 and 0",
    ),
    "a momentum of 1": (lambda o: lr.CyclicLR(o, 0.1, 0.2, max_momentum=1.0), "CyclicLR moves it between 1"),
    "a momentum that grows": (
        lambda o: lr.CyclicLR(o, 0.1, 0.2, mode="exp_range", gamma=1.1),
        "CyclicLR grow by gamma=1.1",
    ),
    "a momentum set by hand": (momentum_by_hand, "the momentum must be.*group 0 has 0.5, not 0.95"),
    "a cycle of a sequence": (
        lambda o: lr.SequentialLR(o, [lr.ConstantLR(o), lr.CyclicLR(o, 0.1, 0.2)], [3]),
        "CyclicLR has cycle_momentum=True",
    ),
    "a scale": (
        lambda o: lr.CyclicLR(o, 0.1, 0.2, scale_fn=lambda x: 1.0, cycle_momentum=False),
        "it has a scale_fn",
    ),
    "a chain of a cosine": (
        lambda o: lr.ChainedScheduler([lr.ConstantLR(o), lr.CosineAnnealingLR(o, 9)]),
        "one is CosineAnnealingLR, which does not multiply",
    ),
    "a rate set by hand": (by_hand, "group 0 has 0.05, not 0.1, at epoch 0"),
    "another optimiser's": (
        lambda o: lr.StepLR(optim.SGD(nn.Linear(2, 2).parameters(), 0.1), 2),
        "must be one of the optimisers that are passed",
    ),
    "no scheduler": (lambda o: "cosine", "must be one of the optimisers that are passed"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_schedulers_are_refused(name):
    make, pattern = REFUSED[name]
    module = nn.Linear(3, 2)
    optimizer = optim.SGD(module.parameters(), 0.1, momentum=0.9)
    scheduler = make(optimizer)
    with pytest.raises(OptionError, match=pattern):
        compile_module(module, torch.randn(4, 3), optimizer, nn.MSELoss(), scheduler=scheduler)


def test_averaged_descent_has_no_scheduler():
    module = nn.Linear(3, 2)
    optimizer = optim.ASGD(module.parameters(), 0.1)
    scheduler = lr.StepLR(optimizer, 2)
    with pytest.raises(OptionError, match="because it uses each rate one step late"):
        compile_module(module, torch.randn(4, 3), optimizer, nn.MSELoss(), scheduler=scheduler)


def test_a_subclass_that_overrides_nothing_is_taken():
    optimizer = two_groups()
    assert_follows(optimizer, type("Mine", (lr.StepLR,), {})(optimizer, 3, 0.5), before=2)


@pytest.mark.parametrize("is_linear", [False, True])
def test_interpolated_goes_through_its_knots(is_linear):
    from catgrad.learn.schedules import interpolated

    knots = [(0, 0.0), (4, 0.4), (6, 0.1), (9, 0.1)]
    rate = build(interpolated(knots, is_linear).rate, [STEP_TYPE])
    for step, wanted in knots:
        np.testing.assert_allclose(evaluate(rate, np.float64(step))[0], wanted, atol=1e-15)
    for (begin, first), (end, last) in pairwise(knots):
        [middle] = evaluate(rate, np.float64((begin + end) / 2))
        np.testing.assert_allclose(middle, (first + last) / 2, atol=1e-15)
    assert evaluate(rate, np.float64(50))[0] == 0.1
    with pytest.raises(OptionError, match="interpolated must have knots at two steps"):
        interpolated([(3, 0.1)])
