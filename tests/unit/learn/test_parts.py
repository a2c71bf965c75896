"""Training a part: slices of parameters follow torch.optim; what is frozen costs neither memory nor time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from catgrad.backends.c.budget import step_bytes
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.machine import operations, workspaces
from benchmarks.part import PARTS, net, trained
from benchmarks.tiny import nets as tiny
from catgrad import Dtype, NdArrayType, Task, build, layers, mse, ops
from catgrad.errors import OptionError
from catgrad.initialisers import Normal
from catgrad.learn.optimisers import (
    Optimiser,
    adafactor,
    adamw,
    clipped,
    frozen,
    grouped,
    muon,
    rmsprop,
    sgd,
    sliced,
)
from catgrad.targets import get_backend
from tests.targets import emit, on, on_learners

BATCH, SIZES = 8, (40, 64, 48, 32, 10)


def learner(optimiser, shape, target="numpy", dtype=Dtype.float64):
    """Return a learner with one normally distributed parameter, w."""
    model = build(lambda: ops.mean(layers.parameter("w", NdArrayType(shape, dtype), Normal())), [])
    return emit(Task(model, optimiser, lambda y_hat: y_hat, labels=()), target).load()().learner(seed=1)


@st.composite
def blocks(draw):
    """Draw a shape, and a slice of it along each of one or two axes."""
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple))
    axes = draw(st.lists(st.sampled_from(range(len(shape))), min_size=1, max_size=2, unique=True))
    starts = {axis: draw(st.integers(0, shape[axis] - 1)) for axis in axes}
    return shape, {axis: slice(a, draw(st.integers(a + 1, shape[axis]))) for axis, a in starts.items()}


def on_block(optimiser, ranges):
    """Train one block of a parameter by slices of slices."""
    for axis, part in ranges.items():
        optimiser = sliced(optimiser, part.start, part.stop, axis)
    return optimiser


@settings(deadline=None)
@given(block=blocks(), kind=st.sampled_from(["momentum", "adamw", "rmsprop"]), seed=st.integers(0, 99))
def test_a_slice_is_trained_like_a_parameter_of_its_own(block, kind, seed):
    torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")
    shape, ranges = block
    ours, theirs = {
        "momentum": (sgd(0.1, momentum=0.9), lambda p: torch.optim.SGD(p, 0.1, momentum=0.9)),
        "adamw": (adamw(0.1), lambda p: torch.optim.AdamW(p, 0.1)),
        "rmsprop": (rmsprop(0.1), lambda p: torch.optim.RMSprop(p, 0.1)),
    }[kind]
    one, place = (
        learner(on_block(ours, ranges), shape),
        tuple(ranges.get(a, slice(None)) for a in range(len(shape))),
    )
    wanted = np.array(one.parameters["w"])
    part = torch.tensor(wanted[place]).requires_grad_()
    other, rng = theirs([part]), np.random.default_rng(seed)
    for _ in range(3):
        gradient = rng.normal(size=shape)
        one.update({"w": gradient})
        part.grad = torch.tensor(gradient[place])
        other.step()
    moved = np.array(one.parameters["w"])
    np.testing.assert_allclose(moved[place], part.detach(), rtol=1e-9, atol=1e-12)
    moved[place] = wanted[place]
    np.testing.assert_array_equal(moved, wanted)
    assert all(np.shape(a) == wanted[place].shape for n, a in one.state.items() if n != "step")


@on_learners
def test_slices_are_trained_on_all_targets(target):
    """Train rows of one layer and columns of the next."""
    rows = NdArrayType((BATCH,))
    sizes = [NdArrayType((n,)) for n in (4, 6, 3)]
    model = layers.dense(rows, *sizes[:2], name="first") >> layers.dense(rows, *sizes[1:], name="last")
    ranges = {"first.weight": np.s_[1:3, :], "last.weight": np.s_[:, 1:2], "last.bias": np.s_[1:]}
    chosen = {
        "first.weight": sliced(adamw(0.1), 1, 3),
        "last.weight": sliced(adamw(0.1), 1, 2, axis=-1),
        "last.bias": sliced(adamw(0.1), 1, 3),
    }
    part = grouped(lambda p: chosen.get(p.name, frozen()))
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(BATCH, n)).astype(np.float32) for n in (4, 3))
    one, whole = (
        emit(Task(model, o, mse, "m"), t).load()().learner(0)
        for o, t in ((part, target), (adamw(0.1), "numpy"))
    )
    before = {name: np.array(array) for name, array in one.parameters.items()}
    whole.parameters.update(before)
    one.step(x, y)
    whole.step(x, y)
    for name, array in one.parameters.items():
        wanted = before[name].copy()
        if name in ranges:
            wanted[ranges[name]] = np.asarray(whole.parameters[name])[ranges[name]]
        np.testing.assert_allclose(np.asarray(array), wanted, rtol=1e-5, atol=1e-5)


def test_slices_have_the_types_and_statistics_of_their_optimiser():
    factored = learner(sliced(adafactor(0.1), 1, 3), (4, 5))
    assert {n: np.shape(a) for n, a in factored.state.items() if n != "step"} == {
        "row_var.w": (2, 1),
        "col_var.w": (1, 5),
    }
    assert list(learner(sliced(muon(0.1), 0, 2), (4,)).state) == ["step", "exp_avg.w", "exp_avg_sq.w"]
    assert not learner(sliced(frozen(), 0, 2), (4,)).state


def test_a_slice_is_evaluated_where_its_optimiser_looks():
    """An optimiser that looks ahead, by `get`, moves only the slice."""
    ahead = Optimiser("ahead", lambda run, p, dp: (p - dp,), get=lambda p: p * 2)
    model = build(lambda: ops.sum(ops.square(layers.parameter("w", NdArrayType((3,)), Normal()))), [])
    one = emit(Task(model, sliced(ahead, 1, 2), lambda y_hat: y_hat, labels=()), "numpy").load()().learner(0)
    one.parameters["w"] = np.array([1, 2, 3], np.float32)
    assert float(one.step()) == 1 + 16 + 9
    np.testing.assert_array_equal(one.parameters["w"], [1, 2 - 2 * 4, 3])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: learner(sliced(sgd(0.1), 0, 5), (4, 5)), "axis 0 of w, which has 4"),
        (lambda: learner(sliced(sgd(0.1), 0, 1, axis=2), (4, 5)), "between -2 and 1"),
        (lambda: sliced(sgd(0.1), 2, 2), "the stop of a slice must be an integer of at least 3"),
        (lambda: sliced(sgd(0.1), -1, 2), "the start of a slice"),
        (lambda: sliced(clipped(sgd(0.1), 1.0), 0, 1), "clipped must wrap sliced"),
        (lambda: sliced(0.1, 0, 1), "must be an instance of Optimiser"),
    ],
)
def test_slices_that_do_not_fit_are_refused(make, message):
    with pytest.raises(OptionError, match=message):
        make()


def task(optimiser):
    return net(optimiser, SIZES, BATCH)


def gradients(optimiser):
    """Count the operations in products of a step that predict does not have."""
    return operations(task(optimiser), "step") - operations(task(optimiser), "predict")


def of_weight(layer):
    return 2 * BATCH * SIZES[layer] * SIZES[layer + 1]


def test_the_gradients_of_frozen_parameters_are_not_computed():
    every, last_two, biases, last, *_ = map(gradients, PARTS.values())
    backwards = [of_weight(layer) for layer in (1, 2, 3)]
    assert every == sum(map(of_weight, range(4))) + sum(backwards)
    assert last_two == of_weight(2) + of_weight(3) + backwards[-1]
    assert biases == sum(backwards)
    assert last == of_weight(3)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("layer", [2, 3])
def test_the_gradient_of_a_slice_is_computed_alone(axis, layer):
    def one(optimiser):
        return gradients(grouped(lambda p: optimiser if p.name == f"dense_{layer}.weight" else frozen()))

    saved = one(sgd(0.1)) - one(sliced(sgd(0.1), 1, 3, axis))
    size = SIZES[layer + axis]
    backwards = of_weight(3) if (layer, axis) == (2, 1) else 0  # of the same columns
    assert saved == (of_weight(layer) + backwards) // size * (size - 2)


@pytest.mark.parametrize(
    ("kind", "axis", "multiplications"),
    [("pointwise", 0, 64 * 64), ("pointwise", 1, 64 * 64), ("depthwise", 0, 64 * 9)],
)
def test_the_gradient_of_an_eighth_of_the_channels_costs_an_eighth(kind, axis, multiplications):
    """Count one product at 25 × 5 places; slices of outputs save products before it, too."""

    def step(optimiser):
        chosen = grouped(lambda p: optimiser if p.name == f"block_3.{kind}.weight" else frozen())
        return operations(tiny.task(tiny.ds_cnn(), chosen), "step")

    whole = 2 * 25 * 5 * multiplications
    assert step(sgd(0.1)) - step(sliced(sgd(0.1), 8, 16, axis)) >= whole * 7 // 8


def test_elements_that_are_frozen_are_not_stored():
    assert trained(task(PARTS["biases"])) == sum(SIZES[1:])
    assert trained(task(PARTS["last layer"])) == 33 * 10


@on("c")
def test_frozen_layers_take_no_memory(target):
    """The least part that trains, the last layer, needs no more than predict does."""
    parts = ("all layers", "last two layers", "biases", "last layer")
    backend, tasks = get_backend(target), [task(PARTS[part]) for part in parts]
    every, last_two, biases, last = (step_bytes(backend, replace(each, rolls=True)) for each in tasks)
    assert every > last_two > biases > last
    assert workspaces(emit(tasks[-1], target, functions=("predict", "step")).load().library) == (last, last)
