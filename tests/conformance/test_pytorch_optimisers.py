"""Optimisers with all their options, and schedules, against torch.optim, through emitted code."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import strategies as st

from catgrad import Dtype, NdArrayType, Task, build, emit, layers, ops
from catgrad.errors import CatgradError, OptionError
from catgrad.initialisers import Normal
from catgrad.learn import optimisers, schedules
from catgrad.learn.optimisers import Optimiser, clipped, frozen, grouped, sgd
from tests.targets import drawn, on_targets_with

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")
optim, lr = torch.optim, torch.optim.lr_scheduler
SHAPES = {"wide": (2, 5), "tall": (4, 3), "bias": (3,)}


def learner(optimiser, target="numpy", dtype=Dtype.float64, shapes=SHAPES):
    """Return a learner with normally distributed parameters of these shapes."""

    def model():
        parameters = [layers.parameter(n, NdArrayType(s, dtype), Normal()) for n, s in shapes.items()]
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

OPTIMISERS = {
    "sgd": (
        dict(learning_rate=RATE, momentum=DECAY, weight_decay=SHRINK, dampening=st.floats(0, 1)),
        sgd,
        lambda p, o: optim.SGD(p, o["learning_rate"], o["momentum"], o["dampening"], o["weight_decay"]),
    ),
    "nesterov": (
        dict(learning_rate=RATE, momentum=st.floats(0.1, 0.99), weight_decay=SHRINK, nesterov=st.just(True)),
        sgd,
        lambda p, o: optim.SGD(p, o["learning_rate"], o["momentum"], 0, o["weight_decay"], nesterov=True),
    ),
    "adam": (
        dict(learning_rate=RATE, beta1=DECAY, beta2=DECAY, epsilon=EPSILON, weight_decay=SHRINK, amsgrad=YES),
        optimisers.adam,
        lambda p, o: optim.Adam(
            p, o["learning_rate"], (o["beta1"], o["beta2"]), o["epsilon"], o["weight_decay"], o["amsgrad"]
        ),
    ),
    "adamw": (
        dict(learning_rate=RATE, beta1=DECAY, beta2=DECAY, epsilon=EPSILON, weight_decay=SHRINK, amsgrad=YES),
        optimisers.adamw,
        lambda p, o: optim.AdamW(
            p, o["learning_rate"], (o["beta1"], o["beta2"]), o["epsilon"], o["weight_decay"], o["amsgrad"]
        ),
    ),
    "rmsprop": (
        dict(
            learning_rate=RATE, alpha=st.floats(0.1, 0.99), epsilon=EPSILON, weight_decay=SHRINK,
            momentum=DECAY, centred=YES,
        ),
        optimisers.rmsprop,
        lambda p, o: optim.RMSprop(
            p, o["learning_rate"], o["alpha"], o["epsilon"], o["weight_decay"], o["momentum"], o["centred"]
        ),
    ),
    "adagrad": (
        dict(learning_rate=RATE, epsilon=EPSILON, weight_decay=SHRINK),
        optimisers.adagrad,
        lambda p, o: optim.Adagrad(
            p, o["learning_rate"], eps=o["epsilon"], weight_decay=o["weight_decay"]
        ),
    ),
}  # fmt: skip


@on_targets_with("learner")
@pytest.mark.parametrize("name", OPTIMISERS)
@drawn(8, data=st.data())
def test_optimisers_with_any_options(name, target, data):
    choices, ours, theirs = OPTIMISERS[name]
    options = data.draw(st.fixed_dictionaries(choices))
    assert_follows(ours(**options), lambda tensors: theirs(list(tensors.values()), options), target)


@pytest.mark.parametrize("make", [optimisers.adam, optimisers.adamw])
@on_targets_with("learner")
def test_the_first_steps_of_adam_in_float32_agree_with_torch(make, target):
    """1 - 0.999 has three digits fewer than 0.001: the correction is not computed in float32."""
    theirs = {"adam": optim.Adam, "adamw": optim.AdamW}[make.__name__]
    assert_follows(
        make(1.0, weight_decay=0.0),
        lambda p: theirs(p.values(), 1.0, weight_decay=0.0),
        target, Dtype.float32, 2e-6, steps=3,
    )  # fmt: skip


def test_a_rate_may_equal_a_decay():
    """Shared values of updates are distinguished by meaning, not only by hyperparameters."""
    assert_follows(optimisers.adam(0.9, beta2=0.9), lambda p: optim.Adam(p.values(), 0.9, (0.9, 0.9)))


def orthogonal(g):
    """The Newton-Schulz iteration of Muon, in NumPy."""
    x = g / max(np.sqrt((g * g).sum()), 1e-7)
    x = x.T if g.shape[0] > g.shape[1] else x
    for _ in range(5):
        gram = x @ x.T
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return x.T if g.shape[0] > g.shape[1] else x


@on_targets_with("learner")
@drawn(4, rate=RATE, momentum=DECAY, decay=SHRINK)
def test_muon_is_its_formula_on_matrices_and_adamw_elsewhere(target, rate, momentum, decay):
    one = learner(optimisers.muon(rate, momentum, decay), target)
    wanted = {n: np.array(a) for n, a in one.parameters.items()}
    bias = torch.tensor(wanted.pop("bias"), requires_grad=True)
    rest, velocity = optim.AdamW([bias], rate, weight_decay=decay), dict.fromkeys(wanted, 0.0)
    for step in range(3):
        given = gradients(step)
        one.update(given)
        bias.grad = torch.tensor(given["bias"])
        rest.step()
        for name, p in wanted.items():
            velocity[name] = momentum * velocity[name] + (1 - momentum) * given[name]
            direction = orthogonal((1 - momentum) * given[name] + momentum * velocity[name])
            inputs, outputs = p.shape
            wanted[name] = (1 - rate * decay) * p - rate * math.sqrt(max(1, outputs / inputs)) * direction
        for name, array in {**wanted, "bias": bias.detach()}.items():
            np.testing.assert_allclose(np.asarray(one.parameters[name]), array, rtol=1e-9, atol=1e-9)


def test_muon_agrees_with_torch_within_bfloat16():
    one = learner(optimisers.muon(0.1, 0.9, 0.2))
    for name in ("wide", "tall"):
        tensor = torch.tensor(one.parameters[name].T.copy(), requires_grad=True)
        tensor.grad = torch.tensor(gradients(0)[name].T.copy())
        optim.Muon([tensor], lr=0.1, momentum=0.9, weight_decay=0.2).step()
        other = learner(optimisers.muon(0.1, 0.9, 0.2))
        other.update(gradients(0))
        np.testing.assert_allclose(other.parameters[name].T, tensor.detach(), atol=0.02)


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
        groups = [dict(params=[p["wide"]], weight_decay=0.3), dict(params=[p["bias"]], weight_decay=0.0)]
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
    "step": (schedules.step_decay(0.3, 4, 0.5), lambda o: lr.StepLR(o, 4, 0.5)),
    "step of one": (schedules.step_decay(0.3, 1, 0.9), lambda o: lr.StepLR(o, 1, 0.9)),
    "exponential": (schedules.exponential_decay(0.3, 0.9), lambda o: lr.ExponentialLR(o, 0.9)),
    "rising": (schedules.exponential_decay(0.3, 1.1), lambda o: lr.ExponentialLR(o, 1.1)),
    "cosine": (schedules.cosine(0.3, 19), lambda o: lr.CosineAnnealingLR(o, 19)),
    "cosine with a floor": (
        schedules.cosine(0.3, 19, least=0.1), lambda o: lr.CosineAnnealingLR(o, 19, 0.1)
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
}  # fmt: skip


@on_targets_with("learner")
@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_agree_with_torch(name, target):
    ours, theirs = SCHEDULES[name]
    np.testing.assert_allclose(rates(ours, range(20), target), torch_rates(theirs, 0.3, 20), rtol=1e-9)


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
    rates = {"wide": 0.1, "tall": 0.2, "bias": 0.1}
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
