"""Options of optimisers and schedules are validated at construction."""

from __future__ import annotations

from math import inf, nan

import numpy as np
import pytest

from catgrad import Dtype, NdArrayType, Task, emit, layers, losses
from catgrad.errors import CatgradError, OptionError
from catgrad.learn.optimisers import adagrad, adam, adamw, clipped, lion, muon, rmsprop, sgd
from catgrad.learn.schedules import adjustable, cosine, exponential_decay, one_cycle, step_decay
from tests.targets import on_targets_with

WRONG_NUMBERS = [-1, nan, inf, "a", None]

NUMBERS = {
    "ε of adam": lambda v: adam(epsilon=v), "ε of adamw": lambda v: adamw(epsilon=v),
    "ε of rmsprop": lambda v: rmsprop(epsilon=v), "ε of adagrad": lambda v: adagrad(epsilon=v),
    "decay of sgd": lambda v: sgd(0.1, weight_decay=v), "decay of lion": lambda v: lion(weight_decay=v),
    "decay of muon": lambda v: muon(weight_decay=v), "dampening": lambda v: sgd(0.1, 0.9, dampening=v),
    "momentum": lambda v: sgd(0.1, v), "β": lambda v: adam(beta2=v), "rate": sgd, "adjustable": adjustable,
    "factor": lambda v: exponential_decay(0.1, v), "factor of steps": lambda v: step_decay(0.1, 3, v),
    "least": lambda v: cosine(0.1, 10, 0, v), "warm-up": lambda v: cosine(0.1, 10, v),
    "rise": lambda v: one_cycle(0.1, 10, v), "start": lambda v: one_cycle(0.1, 10, 0.3, v),
    "end": lambda v: one_cycle(0.1, 10, 0.3, 25, v), "steps": lambda v: cosine(0.1, v),
    "iterations": lambda v: muon(iterations=v), "period": lambda v: step_decay(0.1, v),
}  # fmt: skip


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", WRONG_NUMBERS)
def test_numbers_outside_their_range(name, value):
    with pytest.raises(OptionError):
        NUMBERS[name](value)


WHOLE = ["steps", "iterations", "period", "warm-up"]


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("value", [1.5, True, 2.0])
def test_counts_are_integers(name, value):
    with pytest.raises(OptionError, match="must be an integer"):
        NUMBERS[name](value)


@pytest.mark.parametrize("norm", [0, -1, nan, "a", None, True])
def test_the_norm_of_clipping_is_validated(norm):
    with pytest.raises(OptionError, match="the norm to clip to must be a positive number"):
        clipped(sgd(0.1), norm)


@pytest.mark.parametrize("make", [lambda: clipped(0.1, 1.0), lambda: muon(others=3)])
def test_an_optimiser_must_be_one(make):
    with pytest.raises(CatgradError, match="must be an instance of Optimiser"):
        make()


def test_ranges_include_their_ends():
    assert adam(epsilon=0, weight_decay=0, beta1=0)
    assert sgd(0.1, 0.9, dampening=1)
    assert cosine(0.1, 1)
    assert clipped(sgd(0.1), inf)
    assert one_cycle(0.1, 10, 0.3, 1, 1)


HALF = NdArrayType((3,), Dtype.float16)
MODEL = layers.bias(NdArrayType((), Dtype.float16), HALF, "b")
ZEROS = np.zeros(3, np.float16)


@pytest.mark.parametrize("make", [adam, adamw, rmsprop, adagrad, muon])
def test_an_epsilon_that_16_bits_round_to_zero(make):
    """For a gradient of 0, the step would be 0 / 0."""
    with pytest.raises(OptionError, match="epsilon must not be 0 in float16"):
        emit(Task(MODEL, make(), losses.mse))


@pytest.mark.parametrize("make", [adam, adamw, rmsprop, adagrad])
def test_an_epsilon_representable_in_16_bits(make):
    learner = emit(Task(MODEL, make(epsilon=1e-4), losses.mse)).load()().learner()
    learner.step(ZEROS, ZEROS)
    np.testing.assert_array_equal(learner.parameters["b.bias"], ZEROS)


@on_targets_with("learner")
def test_a_norm_whose_square_overflows_16_bits(target):
    """The norm is 1000, and its square overflows float16; clipped to 3, the step has the right direction."""

    def loss(p, y):
        return losses.mse(p, y, reduction="sum")

    task = Task(MODEL, clipped(sgd(1.0), 3.0), loss)
    learner = emit(task, target).load()().learner()
    learner.step(ZEROS, np.array([0, -300, -400], np.float16))
    np.testing.assert_allclose(np.asarray(learner.parameters["b.bias"]), [0, -1.8, -2.4], rtol=3e-3)
