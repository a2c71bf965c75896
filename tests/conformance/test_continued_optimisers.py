"""Optimisers of PyTorch that are continued after some steps: classes, options, counts."""

from __future__ import annotations

import functools
import importlib
from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catgrad import compile_module, from_torch, mse, verify
from catgrad.errors import OptionError
from catgrad.frontends.torch.training.optimiser_options import CLASSES
from catgrad.frontends.torch.training.optimisers import continued, several
from catgrad.learn import optimisers
from tests.targets import emit

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")
nn, optim = torch.nn, torch.optim

RATE, DECAY, YES = st.sampled_from([0.0, 0.01, 0.3]), st.sampled_from([0.0, 0.5, 0.9]), st.booleans()
SHRINK, SMALL = st.sampled_from([0.0, 0.1]), st.sampled_from([1e-8, 1e-3])
COMMON = dict(lr=RATE, weight_decay=SHRINK, maximize=YES)
ADAM = dict(COMMON, betas=st.tuples(DECAY, DECAY), eps=SMALL)
NESTEROV = dict(COMMON, momentum=st.just(0.9), nesterov=st.just(True))
MUON = dict(
    lr=RATE,
    weight_decay=SHRINK,
    momentum=DECAY,
    nesterov=YES,
    ns_steps=st.integers(1, 6),
    ns_coefficients=st.sampled_from([(3.4445, -4.7750, 2.0315), (1.5, -0.5, 0.0)]),
    eps=st.just(1e-7),
    adjust_lr_fn=st.sampled_from([None, "original", "match_rms_adamw"]),
)

OPTIONS = {
    "SGD": dict(COMMON, momentum=DECAY, dampening=st.sampled_from([0.0, 0.5, 1.0])),
    "Adam": dict(ADAM, amsgrad=YES, decoupled_weight_decay=YES),
    "AdamW": dict(ADAM, amsgrad=YES),
    "Adamax": ADAM,
    "NAdam": dict(ADAM, momentum_decay=SHRINK, decoupled_weight_decay=YES),
    "RAdam": dict(ADAM, decoupled_weight_decay=YES),
    "RMSprop": dict(COMMON, alpha=st.just(0.9), eps=SMALL, momentum=DECAY, centered=YES),
    "Adagrad": dict(COMMON, lr_decay=SHRINK, initial_accumulator_value=SHRINK, eps=SMALL),
    "Adadelta": dict(COMMON, rho=DECAY, eps=SMALL),
    "Adafactor": dict(COMMON, beta2_decay=st.just(-0.8), eps=st.just((None, 1e-3)), d=st.just(1.5)),
    "Rprop": dict(lr=RATE, maximize=YES, etas=st.just((0.5, 1.3)), step_sizes=st.just((1e-6, 1.0))),
    "ASGD": dict(COMMON, lambd=SHRINK, alpha=st.just(0.75), t0=st.sampled_from([1.0, 1e6])),
    "Muon": MUON,
}
"""Choices of the options of each class of torch.optim."""


@pytest.fixture(autouse=True)
def in_float64(monkeypatch):
    """Let PyTorch keep scalars of state in float64, and Muon iterate in it, to compare all digits."""
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.clone)
    yield
    torch.set_default_dtype(usual)


def test_the_law_has_every_class_of_pytorch():
    kinds = {n for n, c in vars(optim).items() if isinstance(c, type) and issubclass(c, optim.Optimizer)}
    ours = {path.removeprefix("torch.optim.") for path in CLASSES if path.startswith("torch.optim.")}
    assert set(OPTIONS) == ours
    assert kinds - ours == {"Optimizer", "LBFGS", "SparseAdam"}


class Batches:
    """A module with batches."""

    def __init__(self, seed=0, bias=True):
        torch.manual_seed(seed)
        self.module = nn.Sequential(nn.Linear(3, 4, bias), nn.Tanh(), nn.Linear(4, 2, bias))
        self.batches = [(torch.randn(5, 3), torch.randn(5, 2)) for _ in range(7)]

    def step(self, optimizers, k):
        for each in optimizers:
            each.zero_grad()
        x, y = self.batches[k]
        nn.functional.mse_loss(self.module(x), y).backward()
        for each in optimizers:
            each.step()


@functools.cache
def imported(bias):
    """Import the module once: its values are set in each learner."""
    case = Batches(bias=bias)
    return from_torch(case.module, case.batches[0][0], train=True, dynamic=())


def quick_learner(case, optimizer):
    """Do as `compile_module` does, without importing the module again."""
    model = imported(case.module[0].bias is not None)
    optimiser, state = continued(optimizer, None, case.module, model.parameters)
    learner = emit(model.task(optimiser, mse), functions=["step"]).load()().learner()
    for name, tensor in case.module.named_parameters():
        learner.parameters[name] = tensor.detach().numpy().copy()
    learner.state.update({name: array for name, array in state.items() if name in learner.state})
    return learner


def assert_continues(case, optimizer, before=0, steps=3, make=quick_learner):
    """Make further steps by PyTorch and by a learner, and compare the parameters after each."""
    optimizers, learner = several(optimizer), make(case, optimizer)
    for k in range(before, before + steps):
        learner.step(*(array.numpy() for array in case.batches[k]))
        case.step(optimizers, k)
        for name, tensor in case.module.named_parameters():
            np.testing.assert_allclose(learner.parameters[name], tensor.detach(), rtol=1e-9, atol=1e-9)
    return learner


def compiled(case, optimizer):
    return compile_module(case.module, case.batches[0][0], optimizer, nn.MSELoss(), dynamic=())


def assert_law(kind, options, before):
    case = Batches(bias=kind != "Muon")
    optimizer = getattr(optim, kind)(case.module.parameters(), **options)
    for k in range(before):
        case.step([optimizer], k)
    assert_continues(case, optimizer, before=before)


@pytest.mark.covering
@pytest.mark.parametrize("before", [0, 1, 3])
@pytest.mark.parametrize("kind", OPTIONS)
def test_optimisers_are_continued(kind, before):
    @settings(max_examples=6)
    @given(options=st.fixed_dictionaries(OPTIONS[kind]))
    def law(options):
        assert_law(kind, options, before)

    law()


@pytest.mark.parametrize("before", [0, 1, 3])
def test_nesterov_momentum_is_continued(before):
    assert_law("SGD", dict(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1), before)


@pytest.mark.parametrize("kind", [kind for kind in OPTIONS if kind != "Muon"])
@pytest.mark.parametrize("way", ["added later", "thawed", "stepped alone"])
def test_parameters_have_counts_of_their_own(kind, way):
    case = Batches()
    options = {"dampening": 0.5, "momentum": 0.9} if kind == "SGD" else {}
    first, last = case.module[0], case.module[2]
    optimizer = getattr(optim, kind)(
        first.parameters() if way == "added later" else case.module.parameters(), lr=0.1, **options
    )
    last.requires_grad_(way != "thawed")
    for k in range(2):
        case.step([optimizer], k)
        if way == "stepped alone" and k == 0:
            first.requires_grad_(False)
    case.module.requires_grad_(True)
    if way == "added later":
        optimizer.add_param_group({"params": list(last.parameters()), "lr": 0.05})
    optimizer.zero_grad()
    assert_continues(case, optimizer, before=2, steps=4)


@pytest.mark.parametrize("before", [0, 2])
def test_several_optimisers_share_a_module(before):
    case = Batches()
    matrices = [p for p in case.module.parameters() if p.ndim == 2]
    others = [p for p in case.module.parameters() if p.ndim != 2]
    pair = [optim.Muon(matrices, 0.02), optim.AdamW(others, 3e-4)]
    for k in range(before):
        case.step(pair, k)
    learner = assert_continues(case, pair, before=before, make=compiled)
    replay = verify(case.module, learner, [case.batches[0]], steps=2)
    assert replay.agrees


def test_a_parameter_has_one_optimiser():
    module = nn.Linear(3, 2)
    pair = [optim.SGD(module.parameters(), 0.1), optim.AdamW([module.bias], 0.1)]
    with pytest.raises(OptionError, match="must have one optimiser, but bias is in two groups"):
        compile_module(module, torch.randn(4, 3), pair, nn.MSELoss())


def adapted(base, **members):
    return type(base.__name__, (base,), members)


def own_step(self, closure=None):
    """Do nothing."""


TAKEN = {
    "a subclass": lambda p: adapted(optim.SGD)(p, 0.1),
    "a subclass of a subclass": lambda p: adapted(adapted(optim.AdamW))(p, 0.1),
    "a subclass with more": lambda p: adapted(optim.Rprop, describe=lambda self: "mine")(p, 0.1),
    "named parameters": lambda p: optim.SGD([("a", each) for each in p], 0.1),
    "named groups": lambda p: optim.Adam([{"params": list(p), "name": "all"}], 0.1),
    "a rate of 0": lambda p: optim.AdamW(p, 0.0),
    "a tensor": lambda p: optim.SGD(p, torch.tensor(0.1)),
    "another implementation": lambda p: optim.Adam(p, 0.1, foreach=True),
}


@pytest.mark.parametrize("name", TAKEN)
@pytest.mark.parametrize("before", [0, 1])
def test_classes_that_compute_the_same_are_taken(name, before):
    case = Batches()
    optimizer = TAKEN[name](case.module.parameters())
    for k in range(before):
        case.step([optimizer], k)
    assert_continues(case, optimizer, before=before, make=compiled)


def hooked(optimizer):
    optimizer.register_step_post_hook(lambda *_: None)
    return optimizer


def patched(optimizer):
    optimizer.step = functools.partial(own_step, optimizer)
    return optimizer


class AdamW(optim.Optimizer):
    """The former AdamW of transformers, without correction of the bias."""

    def __init__(self, params, lr, correct_bias):
        super().__init__(params, {"lr": lr, "correct_bias": correct_bias})


REFUSED = {
    "a step": (lambda p: adapted(optim.SGD, step=own_step)(p, 0.1), "overrides step of torch.optim.SGD"),
    "a step that looks like it": (
        lambda p: adapted(optim.SGD, step=functools.wraps(optim.SGD.step)(own_step))(p, 0.1),
        "overrides step of torch.optim.SGD",
    ),
    "a state": (
        lambda p: adapted(optim.Adam, _init_group=lambda *_: None)(p, 0.1),
        "overrides _init_group of torch.optim.Adam",
    ),
    "a step of one object": (lambda p: patched(optim.SGD(p, 0.1)), "overrides step"),
    "a hook": (lambda p: hooked(optim.SGD(p, 0.1)), "has a hook that is called in each step"),
    "a look-alike": (lambda p: AdamW(p, 0.1, False), "AdamW has none"),
    "an option of another": (
        lambda p: optim.SGD([{"params": list(p), "correct_bias": False}], 0.1),
        "options of torch.optim.SGD must be known: .*, but correct_bias is False",
    ),
    "an option that is None": (lambda p: optim.Adam([{"params": list(p), "clip": None}]), "clip is None"),
    "a combinator": (lambda p: adapted(optim.Optimizer)(p, {"lr": 0.1}), "Optimizer has none"),
    "second order": (lambda p: optim.LBFGS(p), "LBFGS has none"),
    "a step size of another rate": (
        lambda p: other_rate(optim.ASGD(p, 0.1)),
        "must have had its options since its last step",
    ),
}


def other_rate(optimizer):
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()
        group["lr"] = 0.05
    return optimizer


@pytest.mark.parametrize("name", REFUSED)
def test_classes_that_compute_something_else_are_refused(name):
    make, pattern = REFUSED[name]
    module = nn.Linear(3, 2)
    with pytest.raises(OptionError, match=pattern):
        compile_module(module, torch.randn(4, 3), make(module.parameters()), nn.MSELoss())


def test_hooks_of_all_optimisers_are_refused():
    module = nn.Linear(3, 2)
    every = importlib.import_module("torch.optim.optimizer")
    handle = every.register_optimizer_step_pre_hook(lambda *_: None)
    try:
        with pytest.raises(OptionError, match="has a hook that is called in each step"):
            compile_module(module, torch.randn(4, 3), optim.SGD(module.parameters(), 0.1), nn.MSELoss())
    finally:
        handle.remove()


class Lion(optim.Optimizer):
    """The options and the algorithm of timm's Lion, which is loaded only where it is installed."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0, caution=False, **others):
        others = {"corrected_weight_decay": False, "maximize": False, "foreach": None, **others}
        super().__init__(
            params, dict(lr=lr, betas=betas, weight_decay=weight_decay, caution=caution, **others)
        )

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                m = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                p.mul_(1 - group["lr"] * group["weight_decay"])
                grad = -p.grad if group["maximize"] else p.grad
                p.add_(m.mul(beta1).add_(grad, alpha=1 - beta1).sign_(), alpha=-group["lr"])
                m.lerp_(grad, 1 - beta2)


Lion.__module__ = "timm.optim.lion"


@pytest.mark.parametrize("before", [0, 2])
@pytest.mark.parametrize("options", [{}, dict(maximize=True, weight_decay=0.2, betas=(0.5, 0.7))])
def test_lion_of_timm_is_ours(before, options):
    case = Batches()
    optimizer = Lion(case.module.parameters(), 0.01, **options)
    for k in range(before):
        case.step([optimizer], k)
    assert_continues(case, optimizer, before=before)


@pytest.mark.parametrize("options", [dict(caution=True), dict(corrected_weight_decay=True), dict(new=None)])
def test_other_options_of_lion_are_refused(options):
    module = nn.Linear(3, 2)
    [name] = options
    with pytest.raises(OptionError, match=f"{name} is {options[name]}"):
        compile_module(module, torch.randn(4, 3), Lion(module.parameters(), **options), nn.MSELoss())


def test_the_module_and_its_optimiser_remain():
    case = Batches()
    optimizer = optim.SGD(case.module.parameters(), 0.1, momentum=0.9)
    case.step([optimizer], 0)
    before = deepcopy((case.module.state_dict(), optimizer.state_dict()))
    compile_module(case.module, case.batches[0][0], optimizer, nn.MSELoss())
    after = case.module.state_dict(), optimizer.state_dict()
    assert str(before) == str(after)
    with pytest.raises(OptionError, match="must be one of an optimiser of torch.optim"):
        compile_module(
            case.module,
            case.batches[0][0],
            optimisers.sgd(0.1),
            nn.MSELoss(),
            scheduler=optim.lr_scheduler.StepLR(optimizer, 2),
        )


ABSENT = "the optimisers of transformers, the other side of the comparison, cannot be imported"

ADAFACTOR = [
    dict(),
    dict(warmup_init=True),
    dict(lr=1e-2, relative_step=False, scale_parameter=False),
    dict(lr=0.1, relative_step=False, weight_decay=0.1, clip_threshold=0.5, decay_rate=-0.5),
]


@pytest.mark.parametrize("before", [0, 2])
@pytest.mark.parametrize("options", ADAFACTOR)
def test_adafactor_of_transformers_is_continued(before, options):
    Adafactor = pytest.importorskip("transformers.optimization", reason=ABSENT).Adafactor
    case = Batches()
    optimizer = Adafactor(case.module.parameters(), **options)
    for k in range(before):
        case.step([optimizer], k)
    assert_continues(case, optimizer, before=before)


def test_adafactor_with_a_first_moment_is_refused():
    Adafactor = pytest.importorskip("transformers.optimization", reason=ABSENT).Adafactor
    module = nn.Linear(3, 2)
    with pytest.raises(OptionError, match=r"beta1 is 0\.9, not None"):
        compile_module(module, torch.randn(4, 3), Adafactor(module.parameters(), beta1=0.9), nn.MSELoss())
