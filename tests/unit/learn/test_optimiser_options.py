"""Options of optimisers and schedules are validated at construction."""

from __future__ import annotations

from math import inf, nan

import numpy as np
import pytest

from catgrad import Dtype, NdArrayType, Task, emit, layers, losses
from catgrad.errors import CatgradError, OptionError
from catgrad.learn.optimisers import (
    adadelta,
    adafactor,
    adagrad,
    adam,
    adamax,
    adamw,
    asgd,
    clipped,
    lion,
    muon,
    nadam,
    radam,
    rmsprop,
    rprop,
    sgd,
)
from catgrad.learn.schedules import (
    adjustable,
    cosine,
    cosine_with_restarts,
    cyclic,
    exponential_decay,
    linear,
    multi_step_decay,
    one_cycle,
    polynomial,
    step_decay,
)
from tests.targets import on_targets_with

WRONG_NUMBERS = [-1, nan, inf, "a", None]

NUMBERS = {
    "ε of adam": lambda v: adam(epsilon=v), "ε of adamw": lambda v: adamw(epsilon=v),
    "ε of adamax": lambda v: adamax(epsilon=v), "ε of adadelta": lambda v: adadelta(epsilon=v),
    "ε of nadam": lambda v: nadam(epsilon=v), "ε of radam": lambda v: radam(epsilon=v),
    "first ε of adafactor": lambda v: adafactor(epsilon1=[v] if v is None else v),
    "ε of adafactor": lambda v: adafactor(epsilon2=v), "bound": lambda v: adafactor(d=v),
    "decay of nadam": lambda v: nadam(momentum_decay=v), "decay of asgd": lambda v: asgd(weight_decay=v),
    "λ of asgd": lambda v: asgd(lambd=v), "α of asgd": lambda v: asgd(alpha=v),
    "start of asgd": lambda v: asgd(t0=v), "decay of adagrad": lambda v: adagrad(lr_decay=v),
    "first sum": lambda v: adagrad(initial_accumulator_value=v), "first step size": rprop,
    "least step size": lambda v: rprop(step_size_min=v), "growth": lambda v: rprop(eta_plus=v),
    "shrinking": lambda v: rprop(eta_minus=v), "ε of muon": lambda v: muon(epsilon=v),
    "ε of rmsprop": lambda v: rmsprop(epsilon=v), "ε of adagrad": lambda v: adagrad(epsilon=v),
    "decay of sgd": lambda v: sgd(0.1, weight_decay=v), "decay of lion": lambda v: lion(weight_decay=v),
    "decay of muon": lambda v: muon(weight_decay=v), "dampening": lambda v: sgd(0.1, 0.9, dampening=v),
    "momentum": lambda v: sgd(0.1, v), "β": lambda v: adam(beta2=v), "rate": sgd, "adjustable": adjustable,
    "factor": lambda v: exponential_decay(0.1, v), "factor of steps": lambda v: step_decay(0.1, 3, v),
    "factor of milestones": lambda v: multi_step_decay(0.1, [3], v),
    "milestone": lambda v: multi_step_decay(0.1, [v]), "power": lambda v: polynomial(0.1, 5, v),
    "length of linear": lambda v: linear(0.1, v), "length of polynomial": lambda v: polynomial(0.1, v),
    "start of linear": lambda v: linear(0.1, 5, v), "end of linear": lambda v: linear(0.1, 5, 0.5, v),
    "restarts": lambda v: cosine_with_restarts(0.1, v), "top": lambda v: cyclic(0.1, v),
    "growth of restarts": lambda v: cosine_with_restarts(0.1, 3, v),
    "rise of cyclic": lambda v: cyclic(0.1, 0.2, v), "milestones": lambda v: multi_step_decay(0.1, v),
    "fall": lambda v: cyclic(0.1, 0.2, 3, [v] if v is None else v), "base": lambda v: cyclic(v, 0.2),
    "factor of cyclic": lambda v: cyclic(0.1, 0.2, factor=v),
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


WHOLE = [
    "steps", "iterations", "period", "warm-up", "milestone", "length of linear", "length of polynomial",
    "restarts", "growth of restarts", "rise of cyclic", "fall",
]  # fmt: skip


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


@pytest.mark.parametrize("value", [(1.5, -0.5), (1.0, nan, 0.0), "abc", None])
def test_coefficients_of_muon_are_three_numbers(value):
    with pytest.raises(OptionError, match="ns_coefficients must be three numbers"):
        muon(ns_coefficients=value)


def test_the_adjustment_of_muon_is_a_choice():
    with pytest.raises(OptionError, match="adjust_lr_fn must be one of original, match_rms_adamw"):
        muon(adjust_lr_fn="spectral")


@pytest.mark.parametrize("factors", [(1.5, 1.0), (0.5, 2.0)])
def test_factors_of_linear_are_at_most_one(factors):
    with pytest.raises(OptionError, match="linear must have factors of at most 1"):
        linear(0.1, 5, *factors)


def test_the_mode_of_cyclic_is_a_choice():
    with pytest.raises(
        OptionError, match="the mode of cyclic must be one of triangular, triangular2, exp_range"
    ):
        cyclic(0.1, 0.2, mode="square")


@pytest.mark.parametrize("value", [0.1, nan, -inf, "a", None])
def test_the_exponent_of_adafactor_is_at_most_zero(value):
    with pytest.raises(OptionError, match="beta2_decay must be a number of at most 0"):
        adafactor(beta2_decay=value)


def test_a_schedule_is_no_step_size_of_rprop():
    with pytest.raises(OptionError, match="the first step size of rprop must be a finite number"):
        rprop(cosine(0.1, 10))


@pytest.mark.parametrize("bounds", [(2.0, 1.0), (0.0, inf)])
def test_bounds_of_step_sizes_are_ordered(bounds):
    with pytest.raises(OptionError):
        rprop(step_size_min=bounds[0], step_size_max=bounds[1])


def test_ranges_include_their_ends():
    assert adam(epsilon=0, weight_decay=0, beta1=0)
    assert sgd(0.1, 0.9, dampening=1)
    assert cosine(0.1, 1)
    assert clipped(sgd(0.1), inf)
    assert one_cycle(0.1, 10, 0.3, 1, 1)


HALF = NdArrayType((3,), Dtype.float16)
MODEL = layers.bias(NdArrayType((), Dtype.float16), HALF, "b")
ZEROS = np.zeros(3, np.float16)


@pytest.mark.parametrize("make", [adam, adamw, rmsprop, adagrad, muon, adamax, nadam, radam])
def test_an_epsilon_that_16_bits_round_to_zero(make):
    """For a gradient of 0, the step would be 0 / 0."""
    with pytest.raises(OptionError, match="epsilon must not be 0 in float16"):
        emit(Task(MODEL, make(), losses.mse))


@pytest.mark.parametrize("make", [adam, adamw, rmsprop, adagrad, adamax, nadam, radam, adadelta])
def test_an_epsilon_representable_in_16_bits(make):
    learner = emit(Task(MODEL, make(epsilon=1e-4), losses.mse)).load()().learner()
    learner.step(ZEROS, ZEROS)
    np.testing.assert_array_equal(learner.parameters["b.bias"], ZEROS)


@on_targets_with("learner", "16 bits")
def test_a_norm_whose_square_overflows_16_bits(target):
    """The norm is 1000, and its square overflows float16; clipped to 3, the step has the right direction."""

    def loss(p, y):
        return losses.mse(p, y, reduction="sum")

    task = Task(MODEL, clipped(sgd(1.0), 3.0), loss)
    learner = emit(task, target).load()().learner()
    learner.step(ZEROS, np.array([0, -300, -400], np.float16))
    np.testing.assert_allclose(np.asarray(learner.parameters["b.bias"]), [0, -1.8, -2.4], rtol=3e-3)
