"""Optimisers with all their options, and schedules, against torch.optim, through emitted code."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catgrad import Dtype, NdArrayType, Task, build, from_torch, layers, mse, ops
from catgrad.errors import CatgradError, OptionError
from catgrad.initialisers import Normal
from catgrad.learn import optimisers, schedules
from catgrad.learn.optimisers import Optimiser, clipped, frozen, grouped, sgd
from tests.targets import drawn, emit, on_targets_with

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")
optim, lr = torch.optim, torch.optim.lr_scheduler
SHAPES = {"wide": (2, 5), "tall": (4, 3), "bias": (3,), "kernel": (2, 3, 1, 2)}


def learner(optimiser, target="numpy", dtype=Dtype.float64, shapes=SHAPES, outputs_first=False):
    """Return a learner with normally distributed parameters of these shapes."""

    def model():
        parameters = [
            layers.parameter(n, NdArrayType(s, dtype), Normal(), outputs_first) for n, s in shapes.items()
        ]
        return ops.mean(ops.concat([ops.reshape(p, -1) for p in parameters]))

    task = Task(build(model, []), optimiser, lambda y_hat: y_hat, labels=())
    return emit(task, target).load()().learner(seed=1)


def gradients(step, dtype=Dtype.float64, shapes=SHAPES):
    """Draw normally distributed gradients of growing size."""
    rng = np.random.default_rng(step)
    return {n: (1 + step) * rng.normal(size=s).astype(dtype.numpy) for n, s in shapes.items()}


def assert_follows(ours, theirs, target="numpy", dtype=Dtype.float64, tolerance=1e-9, steps=4, clip=None):
    """Compare parameters after each of several steps; `theirs` receives tensors by name."""
    one = learner(ours, target, dtype)
    tensors = {n: torch.tensor(np.array(a)).requires_grad_() for n, a in one.parameters.items()}
    other = theirs(tensors)
    for step in range(steps):
        given = gradients(step, dtype)
        one.update(given)
        for name, tensor in tensors.items():
            tensor.grad = torch.tensor(given[name])
        if clip:
            torch.nn.utils.clip_grad_norm_(tensors.values(), clip)
        other.step()
        for name, array in one.parameters.items():
            wanted = tensors[name].detach()
            np.testing.assert_allclose(np.asarray(array), wanted, rtol=tolerance, atol=tolerance)


RATE, DECAY = st.floats(1e-4, 0.5), st.just(0.0) | st.floats(1e-3, 0.99)
EPSILON, SHRINK, YES = st.floats(1e-10, 1e-2), st.just(0.0) | st.floats(1e-3, 0.5), st.booleans()
COMMON = dict(learning_rate=RATE, weight_decay=SHRINK, maximize=YES)
MOMENTS = dict(beta1=DECAY, beta2=DECAY, epsilon=EPSILON)

OPTIMISERS = {
    "sgd": (optimisers.sgd, optim.SGD, dict(COMMON, momentum=DECAY, dampening=st.floats(0, 1))),
    "nesterov": (
        optimisers.sgd, optim.SGD, dict(COMMON, momentum=st.floats(0.1, 0.99), nesterov=st.just(True))
    ),
    "adam": (optimisers.adam, optim.Adam, dict(COMMON, **MOMENTS, amsgrad=YES)),
    "adamw": (optimisers.adamw, optim.AdamW, dict(COMMON, **MOMENTS, amsgrad=YES)),
    "adamax": (optimisers.adamax, optim.Adamax, dict(COMMON, **MOMENTS)),
    "nadam": (
        optimisers.nadam, optim.NAdam,
        dict(COMMON, **MOMENTS, momentum_decay=SHRINK, decoupled_weight_decay=YES),
    ),
    "radam": (optimisers.radam, optim.RAdam, dict(COMMON, **MOMENTS, decoupled_weight_decay=YES)),
    "rmsprop": (
        optimisers.rmsprop, optim.RMSprop,
        dict(COMMON, alpha=st.floats(0.1, 0.99), epsilon=EPSILON, momentum=DECAY, centred=YES),
    ),
    "adagrad": (
        optimisers.adagrad, optim.Adagrad,
        dict(COMMON, epsilon=EPSILON, lr_decay=SHRINK, initial_accumulator_value=SHRINK),
    ),
    "adadelta": (optimisers.adadelta, optim.Adadelta, dict(COMMON, rho=DECAY, epsilon=EPSILON)),
    "rprop": (
        optimisers.rprop, optim.Rprop,
        dict(
            learning_rate=RATE, maximize=YES, eta_minus=st.floats(0.1, 0.9), eta_plus=st.floats(1.1, 2),
            step_size_min=st.floats(1e-6, 1e-3), step_size_max=st.floats(1e-2, 50),
        ),
    ),
    "asgd": (
        optimisers.asgd, optim.ASGD,
        dict(COMMON, lambd=SHRINK, alpha=st.floats(0, 1), t0=st.sampled_from([0.0, 3.0, 1e6])),
    ),
    "adafactor": (
        optimisers.adafactor, optim.Adafactor,
        dict(
            COMMON, beta2_decay=st.floats(-1, 0), epsilon1=st.none() | EPSILON, epsilon2=EPSILON,
            d=st.floats(1, 3),
        ),
    ),
}  # fmt: skip
"""Ours, PyTorch's, and choices of hyperparameters."""

PAIRS = {
    "betas": ("beta1", "beta2"),
    "etas": ("eta_minus", "eta_plus"),
    "step_sizes": ("step_size_min", "step_size_max"),
}
"""Hyperparameters of torch.optim that are two of ours."""

NAMES = {"learning_rate": "lr", "epsilon": "eps", "centred": "centered"}


def keywords(options):
    """Return the arguments of torch.optim for the same hyperparameters."""
    single = {NAMES.get(name, name): value for name, value in options.items()}
    pairs = {n: tuple(single.pop(part) for part in parts) for n, parts in PAIRS.items() if parts[0] in single}
    if "epsilon1" in single:
        pairs["eps"] = single.pop("epsilon1"), single.pop("epsilon2")
    return {**single, **pairs}


@pytest.fixture
def numbers_in_float64():
    """Let torch.optim keep numbers of the whole parameter, such as NAdam's product, in float64."""
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(usual)


@pytest.mark.covering
@on_targets_with("learner")
@pytest.mark.parametrize("name", OPTIMISERS)
@drawn(8, data=st.data())
def test_optimisers_with_any_options(numbers_in_float64, name, target, data):
    ours, theirs, choices = OPTIMISERS[name]
    options = data.draw(st.fixed_dictionaries(choices))
    assert_follows(ours(**options), lambda p: theirs(p.values(), **keywords(options)), target)


@pytest.mark.parametrize("name", [name for name in OPTIMISERS if name not in ("sgd", "nesterov")])
def test_ten_steps_with_the_defaults_of_torch(numbers_in_float64, name):
    """Gradients grow over four tensors: wide, tall, of one axis and of four."""
    ours, theirs, _ = OPTIMISERS[name]
    assert_follows(ours(), lambda p: theirs(p.values()), steps=10)


class Scheduled:
    """An optimiser of torch.optim whose rate shrinks after each step."""

    def __init__(self, optimiser, factor):
        self.optimiser, self.scheduler = optimiser, lr.ExponentialLR(optimiser, factor)

    def step(self):
        self.optimiser.step()
        self.scheduler.step()


@pytest.mark.parametrize("name", [name for name in OPTIMISERS if name not in ("rprop", "asgd")])
def test_optimisers_with_a_schedule(numbers_in_float64, name):
    """Rprop reads the rate at its first step only, and ASGD each rate one step later."""
    ours, theirs, _ = OPTIMISERS[name]
    options = {"weight_decay": 0.1, **({"momentum": 0.9} if theirs is optim.SGD else {})}
    one = ours(schedules.exponential_decay(0.1, 0.5), **options)
    assert_follows(one, lambda p: Scheduled(theirs(p.values(), 0.1, **options), 0.5), steps=6)


@pytest.mark.parametrize("make", [optimisers.adam, optimisers.adamw])
@on_targets_with("learner")
def test_the_first_steps_of_adam_in_float32_agree_with_torch(make, target):
    """1 - 0.999 has three digits fewer than 0.001: the correction is not computed in float32."""
    theirs = {"adam": optim.Adam, "adamw": optim.AdamW}[make.__name__]
    assert_follows(
        make(1.0, weight_decay=0.0),
        lambda p: theirs(p.values(), 1.0, weight_decay=0.0),
        target,
        Dtype.float32,
        2e-6,
        steps=3,
    )


def test_a_rate_may_equal_a_decay():
    """Shared values of updates are distinguished by meaning, not only by hyperparameters."""
    assert_follows(optimisers.adam(0.9, beta2=0.9), lambda p: optim.Adam(p.values(), 0.9, (0.9, 0.9)))


@pytest.fixture
def muon_in_float64(monkeypatch):
    """Let torch.optim.Muon iterate in the dtype of the gradient, not in bfloat16, to compare all digits."""
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.clone)


MUON = dict(
    learning_rate=RATE,
    momentum=DECAY,
    weight_decay=SHRINK,
    nesterov=YES,
    epsilon=EPSILON | st.just(10.0),
    ns_coefficients=st.sampled_from([(3.4445, -4.7750, 2.0315), (1.5, -0.5, 0.0), (1.875, -1.25, 0.375)]),
    iterations=st.integers(1, 5),
    adjust_lr_fn=st.sampled_from(["original", "match_rms_adamw"]),
)


def torch_muon(matrices, o):
    return optim.Muon(
        matrices, o["learning_rate"], o["weight_decay"], o["momentum"], o["nesterov"], o["ns_coefficients"],
        o["epsilon"], o["iterations"], o["adjust_lr_fn"],
    )  # fmt: skip


@pytest.mark.covering
@on_targets_with("learner")
@pytest.mark.parametrize("outputs_first", [False, True])
@drawn(5, options=st.fixed_dictionaries(MUON))
def test_muon_is_that_of_torch_on_matrices_and_adamw_elsewhere(
    muon_in_float64, target, outputs_first, options
):
    """Matrices of our layers are transposed for torch, whose rows are outputs."""
    one = learner(optimisers.muon(**options), target, outputs_first=outputs_first)

    def turned(array):
        return np.array(array if outputs_first or np.ndim(array) != 2 else np.transpose(array))

    tensors = {n: torch.tensor(turned(a), requires_grad=True) for n, a in one.parameters.items()}
    rate, decay = options["learning_rate"], options["weight_decay"]
    matrices = [tensor for tensor in tensors.values() if tensor.ndim == 2]
    others = [tensor for tensor in tensors.values() if tensor.ndim != 2]
    theirs = torch_muon(matrices, options), optim.AdamW(others, rate, weight_decay=decay)
    for step in range(3):
        given = gradients(step)
        one.update(given)
        for name, tensor in tensors.items():
            tensor.grad = torch.tensor(turned(given[name]))
        for optimiser in theirs:
            optimiser.step()
        for name, tensor in tensors.items():
            ours = turned(np.asarray(one.parameters[name]))
            np.testing.assert_allclose(ours, tensor.detach(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("inputs", "outputs"), [(4, 16), (16, 4)])
def test_muon_moves_the_weights_of_an_imported_module_as_torch_does(muon_in_float64, inputs, outputs):
    module = torch.nn.Linear(inputs, outputs, bias=False).double()
    x, y = torch.randn(5, inputs, dtype=torch.float64), torch.randn(5, outputs, dtype=torch.float64)
    imported = from_torch(module, x)
    one = emit(Task(imported.model, optimisers.muon(0.1), mse)).load()().learner()
    for name, array in imported.parameters.items():
        one.parameters[name] = array
    one.step(x.numpy(), y.numpy())
    torch.nn.functional.mse_loss(module(x), y).backward()
    optim.Muon(module.parameters(), 0.1).step()
    np.testing.assert_allclose(one.parameters["weight"], module.weight.detach(), rtol=1e-9)


@on_targets_with("learner")
@drawn(6, norm=st.floats(1e-3, 1e3))
def test_clipping_agrees_with_torch(target, norm):
    ours = clipped(sgd(0.1, 0.9), norm)
    assert_follows(ours, lambda p: optim.SGD(p.values(), 0.1, 0.9), target, clip=norm)


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_clipping_preserves_nonfinite_gradients(value):
    """An infinite element becomes NaN and the others 0, as in torch; a NaN makes all NaN."""
    one, given = learner(clipped(sgd(1.0), 1.0)), gradients(0)
    given["bias"][0] = value
    before = one.parameters
    tensors = {n: torch.zeros(a.shape, dtype=torch.float64, requires_grad=True) for n, a in given.items()}
    for name, tensor in tensors.items():
        tensor.grad = torch.tensor(given[name])
    torch.nn.utils.clip_grad_norm_(tensors.values(), 1.0)
    one.update(given)
    for name, tensor in tensors.items():
        np.testing.assert_allclose(one.parameters[name], before[name] - tensor.grad.numpy(), rtol=1e-9)


@pytest.mark.parametrize(("inner", "outer"), [(1.0, 2.0), (2.0, 1.0)])
def test_clipping_twice_is_clipping_to_the_smaller_norm(inner, outer):
    twice, once = (learner(o) for o in (clipped(clipped(sgd(1.0), inner), outer), clipped(sgd(1.0), 1.0)))
    for one in (twice, once):
        one.update(gradients(3))
    for name, array in once.parameters.items():
        np.testing.assert_allclose(twice.parameters[name], array, rtol=1e-5)


def test_clipping_some_parameters_only_is_refused():
    """The norm is that of all gradients, so it is computed before groups are selected."""
    with pytest.raises(OptionError, match="clipped must wrap grouped"):
        learner(grouped(lambda p: clipped(sgd(0.1), 1.0)))
    with pytest.raises(OptionError, match="clipped must wrap grouped"):
        learner(optimisers.muon(0.1, others=clipped(sgd(0.1), 1.0)))


@on_targets_with("learner")
def test_groups_agree_with_torch(target):
    """Weight decay applies to matrices only, and one parameter is frozen."""
    ours = grouped(
        lambda p: (
            frozen() if p.name == "tall" else optimisers.adamw(0.1, weight_decay=0.3 * (p.type.rank > 1))
        )
    )

    def theirs(p):
        p["tall"].requires_grad_(False)
        groups = [
            dict(params=[p["wide"], p["kernel"]], weight_decay=0.3),
            dict(params=[p["bias"]], weight_decay=0.0),
        ]
        return optim.AdamW(groups, 0.1)

    assert_follows(ours, theirs, target)
    one = learner(ours, target)
    before = np.asarray(one.parameters["tall"]).copy()
    one.update(gradients(0))
    assert np.array_equal(one.parameters["tall"], before)
    assert not [name for name in one.state if name.endswith(".tall")]


def rates(schedule, steps, target="numpy", dtype=Dtype.float64):
    """Measure the rate at each step by gradient descent from 0 with gradient 1."""
    one, found = learner(sgd(schedule), target, dtype, {"p": (1,)}), []
    for step in steps:
        one.parameters["p"], one.state["step"] = np.zeros(1, dtype.numpy), np.int64(step)
        one.update({"p": np.ones(1, dtype.numpy)})
        found.append(-float(one.parameters["p"][0]))
    return found


def torch_rates(make, first, steps):
    optimiser = optim.SGD([torch.zeros(1, requires_grad=True)], first)
    scheduler = make(optimiser)
    found = [optimiser.param_groups[0]["lr"]]
    for _ in range(steps - 1):
        optimiser.step()
        scheduler.step()
        found.append(optimiser.param_groups[0]["lr"])
    return found


SCHEDULES = {
    "cosine": (schedules.cosine(0.3, 19), lambda o: lr.CosineAnnealingLR(o, 19)),
    "cosine with a floor": (schedules.cosine(0.3, 19, least=0.1), lambda o: lr.CosineAnnealingLR(o, 19, 0.1)),
    "a milestone twice": (
        schedules.multi_step_decay(0.3, [7, 0, 7, 2]),
        lambda o: lr.MultiStepLR(o, [7, 0, 7, 2]),
    ),
    "triangles that fade": (
        schedules.cyclic(0.3, 0.1, 5, 2, "exp_range", 0.9),
        lambda o: lr.CyclicLR(o, 0.3, 0.1, 5, 2, "exp_range", 0.9, cycle_momentum=False),
    ),
    "one cycle": (
        schedules.one_cycle(0.3, 20),
        lambda o: lr.OneCycleLR(o, 0.3, total_steps=20, cycle_momentum=False),
    ),
    "one cycle with options": (
        schedules.one_cycle(0.3, 20, 0.45, 5.0, 7.0),
        lambda o: lr.OneCycleLR(
            o, 0.3, total_steps=20, pct_start=0.45, div_factor=5.0, final_div_factor=7.0, cycle_momentum=False
        ),
    ),
}
"""Schedules that `test_continued_schedulers` does not compare: formulas of their own, and odd options."""


@pytest.mark.covering
@on_targets_with("learner")
@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_agree_with_torch(name, target):
    ours, theirs = SCHEDULES[name]
    np.testing.assert_allclose(rates(ours, range(20), target), torch_rates(theirs, 0.3, 20), rtol=1e-9)


@settings(max_examples=20)
@given(period=st.integers(1, 40), growth=st.integers(1, 5))
def test_restarts_at_the_steps_of_torch(period, growth):
    """The rate is the greatest at the first step after a restart, hundreds of steps later as well."""
    ours = rates(schedules.cosine_with_restarts(0.3, period, growth), range(300))
    theirs = torch_rates(lambda o: lr.CosineAnnealingWarmRestarts(o, period, growth), 0.3, 300)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


@on_targets_with("learner")
@drawn(6, data=st.data())
def test_cosine_with_warm_up_is_its_formula(target, data):
    steps = data.draw(st.integers(2, 30))
    warm_up, least = data.draw(st.integers(0, steps - 1)), data.draw(st.floats(0, 0.3))

    def at(t):
        if t < warm_up:
            return 0.3 * (t + 1) / warm_up
        share = min((t - warm_up) / (steps - warm_up), 1)
        return least + (0.3 - least) * (1 + math.cos(math.pi * share)) / 2

    found = rates(schedules.cosine(0.3, steps, warm_up, least), range(steps + 3), target)
    np.testing.assert_allclose(found, [at(t) for t in range(steps + 3)], rtol=1e-9, atol=1e-12)


@on_targets_with("learner")
def test_schedules_are_exact_far_along_in_float32(target):
    """A factor rounded to float32 would be 0.3% off after 100 000 steps."""
    schedule = schedules.exponential_decay(1.0, 1 - 1e-5)
    wanted = [(1 - 1e-5) ** t for t in (10, 10**5, 10**6)]
    found = rates(schedule, (10, 10**5, 10**6), target, Dtype.float32)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    late = rates(schedules.cosine(1.0, 2**25, 10, 1e-3), [2**24 + 1], target, Dtype.float32)
    np.testing.assert_allclose(late, [0.001 + 0.999 * 0.5], rtol=1e-6)


@on_targets_with("learner")
def test_parameters_of_two_dtypes_share_one_rate(target):
    """Two groups may also have separate rates with different names."""
    shared = schedules.adjustable(0.5)

    def model():
        p = layers.parameter("p", NdArrayType((2,), Dtype.float64))
        q = layers.parameter("q", NdArrayType((2,)))
        return ops.sum(p) + ops.cast(ops.sum(q), Dtype.float64)

    task = Task(build(model, []), sgd(shared), lambda y_hat: y_hat, labels=())
    one = emit(task, target).load()().learner()
    one.state["learning_rate"] = 0.25
    one.update({"p": np.ones(2), "q": np.ones(2, np.float32)})
    assert np.asarray(one.parameters["p"]).tolist() == np.asarray(one.parameters["q"]).tolist() == [-0.25] * 2


@on_targets_with("learner")
def test_groups_with_separate_rates(target):
    matrices, rest = schedules.adjustable(0.5), schedules.adjustable(0.125, "rate_of_biases")
    one = learner(grouped(lambda p: sgd(matrices if p.type.rank == 2 else rest)), target)
    assert {"learning_rate", "rate_of_biases"} <= one.state.keys()
    one.state["rate_of_biases"] = 0.0625
    before = {n: np.asarray(a).copy() for n, a in one.parameters.items()}
    one.update({n: np.ones(s) for n, s in SHAPES.items()})
    for name, array in one.parameters.items():
        wanted = before[name] - (0.5 if len(SHAPES[name]) == 2 else 0.0625)
        np.testing.assert_allclose(np.asarray(array), wanted, rtol=1e-12)


def test_two_rates_of_one_name_are_refused():
    rates = {"wide": 0.1, "tall": 0.2, "bias": 0.1, "kernel": 0.1}
    with pytest.raises(CatgradError, match="'learning_rate' is .*0.1.* and .*0.2"):
        learner(grouped(lambda p: sgd(schedules.adjustable(rates[p.name]))))


@on_targets_with("learner")
def test_state_that_is_never_read_is_still_updated(target):
    """The results of a step are identified by its arguments."""
    lazy = Optimiser("lazy", lambda run, last, p, dp: (dp, p - 0.5 * dp), ("last",))
    one = learner(lazy, target, shapes={"p": (2,)})
    before = np.asarray(one.parameters["p"]).copy()
    one.update({"p": np.array([1.0, 2.0])})
    np.testing.assert_allclose(np.asarray(one.parameters["p"]), before - [0.5, 1.0])
    np.testing.assert_allclose(np.asarray(one.state["last.p"]), [1.0, 2.0])
