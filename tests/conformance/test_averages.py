"""Moving averages of weights follow torch.optim.swa_utils, and are what predicts, on every target."""

from __future__ import annotations

import numpy as np
import pytest

from catgrad import Dim, NdArrayType, Task, fit, layers, mse, ops
from catgrad.errors import OptionError
from catgrad.learn.fit.checkpoint import load, save
from catgrad.learn.optimisers import adamw, clipped, ema, frozen, grouped, sgd, sliced
from catgrad.learn.schedules import Schedule
from catgrad.types import as_numpy
from tests.targets import emit, on

BATCH, IN, HIDDEN, OUT = (NdArrayType(shape) for shape in [(Dim("batch"),), (4,), (5,), (3,)])
NET = layers.dense(BATCH, IN, HIDDEN, name="first") >> layers.dense(BATCH, HIDDEN, OUT, name="last")
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(8, 4)).astype(np.float32), RNG.normal(size=(8, 3)).astype(np.float32)

MEAN = Schedule("mean", lambda t: t / (t + 1))
WARM = Schedule("warm_up", lambda t: ops.minimum(0.9 + 0 * t, 1 - (1 + t) ** (-2 / 3)))
DECAYS = {"constant": 0.9, "mean": MEAN, "warm-up": WARM}


def learner(optimiser, target="numpy", model=NET):
    return emit(Task(model, optimiser, mse), target).load()().learner(seed=0)


def arrays(table):
    return {name: np.array(as_numpy(array)) for name, array in table.items()}


def close(found, wanted):
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-6, err_msg=name)


def averaging(torch, name):
    """Return the arguments of AveragedModel that average as a decay of ours."""
    if name == "constant":
        return {"multi_avg_fn": torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)}
    if name == "mean":
        return {}
    # As ModelEmaV3 of timm with a warm-up by the power 2/3: 0 at the first step.
    return {"avg_fn": lambda mean, w, n: mean.lerp(w, 1 - min(0.9, 1 - (1 + int(n)) ** (-2 / 3)))}


def in_pytorch(torch, values):
    """Return NET as a module of PyTorch with these values."""
    module = torch.nn.Sequential(
        torch.nn.Linear(4, 5), torch.nn.Sigmoid(), torch.nn.Linear(5, 3), torch.nn.Sigmoid()
    )
    with torch.no_grad():
        for linear, name in ((module[0], "first"), (module[2], "last")):
            linear.weight.copy_(torch.tensor(values[f"{name}.weight"]).T)
            linear.bias.copy_(torch.tensor(values[f"{name}.bias"]))
    return module


@pytest.mark.covering
@on("numpy", "torch", "jax", "c", "javascript", long=("javascript",))
@pytest.mark.parametrize("name", DECAYS)
def test_averages_are_those_of_pytorch(name, target):
    torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")
    ours = learner(ema(adamw(0.03), DECAYS[name]), target)
    module = in_pytorch(torch, arrays(ours.parameters))
    optimizer = torch.optim.AdamW(module.parameters(), 0.03)
    averaged = torch.optim.swa_utils.AveragedModel(module, **averaging(torch, name))
    x, y = torch.tensor(X), torch.tensor(Y)
    for _ in range(6):
        loss = torch.nn.functional.mse_loss(module(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        averaged.update_parameters(module)
        np.testing.assert_allclose(ours.step(X, Y), loss.item(), rtol=1e-5)
        predicted = averaged(x).detach()
        np.testing.assert_allclose(as_numpy(ours.predict(X)), predicted, rtol=1e-5, atol=1e-6)
        held_out = torch.nn.functional.mse_loss(predicted, y).item()
        np.testing.assert_allclose(ours.loss(X, Y), held_out, rtol=1e-5)


@on("numpy", "torch", "c", "cuda", long=("cuda",))
def test_the_halves_of_a_step_are_the_step(target):
    whole, halves = (learner(ema(sgd(0.1, momentum=0.9), 0.9), target) for _ in range(2))
    for _ in range(3):
        loss = whole.step(X, Y)
        found, gradients = halves.grads(X, Y)
        halves.update(gradients)
        np.testing.assert_allclose(found, loss, rtol=1e-6)
    close(arrays(halves.parameters), arrays(whole.parameters))
    close(arrays(halves.state), arrays(whole.state))


def by_rank(slot):
    return adamw(0.03) if slot.type.rank > 1 else sgd(0.1)


def only_last(slot):
    return sgd(0.1, 0.9) if slot.name.startswith("last.") else frozen()


@pytest.mark.parametrize("optimiser", [
    sgd(0.1), clipped(adamw(0.03), 0.1), grouped(by_rank), grouped(only_last), sliced(sgd(0.1, 0.9), 1, 3),
], ids=lambda optimiser: optimiser.name)  # fmt: skip
def test_the_trained_weights_are_those_without_averages(optimiser):
    plain, averaged = learner(optimiser), learner(ema(optimiser, 0.9))
    for _ in range(5):
        np.testing.assert_allclose(averaged.step(X, Y), plain.step(X, Y), rtol=1e-6)
    leads = {name: averaged.state.get(f"lead.{name}", 0) for name in averaged.parameters}
    close({name: p + leads[name] for name, p in averaged.parameters.items()}, arrays(plain.parameters))
    for name, lead in leads.items():
        assert np.any(lead) == (not (optimiser.of(slot(name)).is_constant)), name


def slot(name):
    return next(each for each in Task(NET, sgd(0.1), mse).parameters if each.name == name)


def test_clipping_and_averaging_commute():
    one, other = learner(clipped(ema(sgd(0.1), 0.9), 0.1)), learner(ema(clipped(sgd(0.1), 0.1), 0.9))
    for _ in range(3):
        one.step(X, Y), other.step(X, Y)
    close(arrays(one.parameters), arrays(other.parameters))


def test_equal_layers_are_averaged_in_loops():
    net = layers.sequential(*(layers.dense(BATCH, IN, IN, name=f"layer_{k}") for k in range(4)))
    plain = Task(net, ema(adamw(0.03), 0.9), mse)
    y = RNG.normal(size=(8, 4)).astype(np.float32)
    one, other = (
        emit(plain, functions=("predict", "step"), roll=roll).load()().learner(0) for roll in (True, False)
    )
    for _ in range(3):
        np.testing.assert_allclose(one.step(X, y), other.step(X, y), rtol=1e-6)
    close(arrays(one.parameters), arrays(other.parameters))


def test_validation_and_files_of_weights_have_the_averages(tmp_path):
    averaged = learner(ema(sgd(0.1), 0.9))
    history = fit(averaged, (X, Y), epochs=3, batch_size=4, validation=(X, Y), progress=False)
    assert np.isclose(history.epochs[-1].validation["loss"], averaged.loss(X, Y))
    save(averaged, tmp_path / "run.safetensors")
    again = learner(ema(sgd(0.1), 0.9))
    load(again, tmp_path / "run.safetensors")
    assert averaged.step(X, Y) == again.step(X, Y)
    other = learner(sgd(0.1))
    other.parameters = averaged.parameters
    assert np.array_equal(other.predict(X), averaged.predict(X))


def test_weights_that_are_loaded_before_training_are_trained():
    plain, averaged = learner(sgd(0.1)), learner(ema(sgd(0.1), 0.9))
    for each in (plain, averaged):
        each.parameters = {name: array + 1 for name, array in arrays(each.parameters).items()}
    assert averaged.step(X, Y) == plain.step(X, Y)
    close(arrays(averaged.parameters), arrays(plain.parameters))


def test_frozen_parameters_have_no_average():
    assert ema(frozen()) == frozen()


@pytest.mark.parametrize("decay", [-0.1, 1, 2.0, float("nan"), "a", None])
def test_decays_outside_their_range_are_refused(decay):
    with pytest.raises(OptionError, match="decay"):
        ema(sgd(0.1), decay)
