"""Edge cases of buffers, random numbers and names of state."""

from __future__ import annotations

import numpy as np
import pytest

from catgrad import Dim, Dtype, NdArrayType, Task, build, fit, layers, mse, ops, sgd
from catgrad.errors import OptionError, TermError
from catgrad.functors import reverse
from catgrad.learn import optimisers, schedules
from catgrad.learn.fit import checkpoint
from catgrad.learn.layers import buffer, checkpointed, dropout, parameter, update
from catgrad.programs.ports import Kind, Role, tables
from catgrad.programs.program import evaluate
from catgrad.terms.state import DRAWS, SEED, STEP
from tests.targets import emit, on_targets_with

V, WIDE, KEYS = NdArrayType((3,)), NdArrayType((400,)), (np.int64(5), np.int64(0))
N = Dim("batch")


def masks(model, *keys):
    """Return a mask of the outputs of a model in training that are not 0, for inputs of 1."""
    task = Task(model, sgd(0.1), lambda *_: None)
    count = len(task.buffers)
    values = evaluate(task.trained_term, *(keys or KEYS), *[np.ones(400, np.float32)] * len(model.source))
    return [y > 0 for y in values[count:]]


def noisy(x, name="dropout"):
    return dropout(WIDE, 0.5, name)(x)


@on_targets_with("learner")
def test_a_buffer_that_is_never_read_is_still_updated(target):
    def model(x):
        buffer("last", V)
        update("last", x)
        return x * parameter("w", V)

    learner = emit(Task(build(model, [V]), sgd(0.3), mse), target).load()().learner()
    loss, gradients = learner.grads(np.ones(3), np.ones(3))
    assert float(loss) == 1
    np.testing.assert_allclose(np.asarray(gradients["w"]), [-2 / 3] * 3, rtol=1e-6)
    learner.step(np.ones(3) * 2, np.ones(3))
    np.testing.assert_allclose(np.asarray(learner.parameters["w"]), [0.4] * 3, rtol=1e-6)
    np.testing.assert_allclose(np.asarray(learner.buffers["last"]), [2] * 3)
    assert "M ×" not in type(learner.model).predict.__doc__


OPTIMISERS = {
    "step": optimisers.adam(),
    "learning_rate": sgd(schedules.adjustable(0.1)),
    "momentum.w": sgd(0.1, 0.9),
}


@pytest.mark.parametrize("name", OPTIMISERS)
def test_a_parameter_must_not_have_a_name_of_the_state(name):
    def model(x):
        return x * parameter(name, V) * parameter("w", V)

    with pytest.raises(TermError, match=f"'{name}' is in state and in parameters; rename one of them"):
        emit(Task(build(model, [V]), OPTIMISERS[name], mse))


@pytest.mark.parametrize("make", [parameter, buffer])
@pytest.mark.parametrize("name", ["seed", "draws"])
def test_a_parameter_must_not_have_a_name_of_a_run_number(make, name):
    def model(x):
        return ops.random.Dropout("dropout")(x * make(name, V), SEED(), DRAWS())

    with pytest.raises(TermError, match=f"'{name}' is in buffers and in"):
        emit(Task(build(model, [V]), sgd(0.1), mse))


def test_the_step_belongs_to_the_optimiser_or_to_the_model():
    """Both would increment it: the model for each run, the optimiser for each update."""
    model = build(lambda x: x * parameter("w", V) * ops.broadcast(ops.cast(STEP(), V.dtype), (3,)), [V])
    emit(Task(model, sgd(0.1), mse))
    with pytest.raises(TermError, match="'step' is in state and in buffers"):
        emit(Task(model, optimisers.adam(0.1), mse))


LAYER = checkpointed(dropout(WIDE))
PAIRS = {
    "in sequence": layers.sequential(LAYER, LAYER),
    "composed": LAYER >> LAYER,
    "beside": layers.sequential(checkpointed(dropout(WIDE)), dropout(WIDE)),
    "in one": checkpointed(dropout(WIDE) >> dropout(WIDE)),
    "under names": layers.named("a", LAYER) >> layers.named("b", LAYER),
    "in a loop": build(lambda x: ops.repeat(lambda h: noisy(h, "other"), 1, ops.repeat(noisy, 1, x)), [WIDE]),
    "in loops composed": build(lambda x: ops.repeat(noisy, 1, x), [WIDE])
    >> build(lambda x: ops.repeat(noisy, 1, x), [WIDE]),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_two_noise_layers_have_different_masks(pair):
    """One mask leaves half of the elements, two a quarter: inside checkpoints and loops too."""
    (kept,) = masks(PAIRS[pair])
    assert abs(kept.mean() - 0.25) < 0.1


def test_a_checkpoint_draws_the_mask_of_the_layer_it_is_around():
    (plain,), (kept) = masks(dropout(WIDE)), masks(LAYER)[0]
    assert np.array_equal(plain, kept)


@on_targets_with("learner")
@pytest.mark.parametrize("wrapped", [False, True])
def test_the_reverse_uses_the_mask_of_the_forward_and_each_step_another(target, wrapped):
    """For y = w · mask and the loss Σ y / n, the gradient of w is the scaled mask."""
    layer = LAYER if wrapped else dropout(WIDE)
    model = build(lambda x: layer(x * parameter("w", WIDE)), [WIDE])
    learner = emit(Task(model, sgd(0.1), lambda y: ops.sum(y), labels=()), target).load()().learner(seed=5)
    seen = []
    for draws in range(3):
        _, gradients = learner.grads(np.ones(400, np.float32))
        found = np.asarray(gradients["w"])
        wanted = masks(model_of_ones(layer), np.int64(5), np.int64(draws))[0]
        assert np.array_equal(found, 2 * wanted)
        seen.append(found)
    assert not np.array_equal(seen[0], seen[1]) and not np.array_equal(seen[1], seen[2])


def model_of_ones(layer):
    return build(lambda x: layer(x), [WIDE])


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_dropout_has_the_expected_mean_and_variance(rate):
    """Over 400 draws, the mean is 1, the variance rate / (1 - rate), and all draws differ."""
    term = Task(dropout(WIDE, rate), sgd(0.1), mse).trained_term
    ys = np.array(
        [evaluate(term, np.int64(1), np.int64(t), np.ones(400, np.float32))[-1] for t in range(400)]
    )
    variance = rate / (1 - rate)
    bound = 5 * np.sqrt(variance / ys.size)
    assert abs(ys.mean() - 1) < bound
    assert abs(ys.var() / variance - 1) < 0.1
    among = np.corrcoef(ys)
    assert np.abs(among - np.eye(400)).max() < 0.35
    assert abs(np.mean(ys[1:] * ys[:-1]) - 1) < 3 * bound * max(1, variance)


@on_targets_with("learner")
def test_buffers_are_read_by_predict_and_changed_by_training_only(target):
    x = NdArrayType((N, 3), Dtype.float64)
    model = layers.batch_norm(x) >> dropout(x, 0.5)
    learner = emit(Task(model, sgd(0.1), mse), target).load()().learner(seed=1)
    rng = np.random.default_rng(0)
    first = {name: np.asarray(array).copy() for name, array in learner.buffers.items()}
    learner.predict(rng.normal(size=(4, 3)))
    learner.loss(rng.normal(size=(4, 3)), rng.normal(size=(4, 3)))
    for name, array in learner.buffers.items():
        assert np.array_equal(np.asarray(array), first[name])
    for size in (5, 2, 7):
        learner.step(rng.normal(size=(size, 3)), rng.normal(size=(size, 3)))
    assert int(learner.buffers["norm.num_batches_tracked"]) == int(learner.buffers["draws"]) == 3
    assert all(
        np.isfinite(np.asarray(a)).all() for a in [*learner.buffers.values(), *learner.parameters.values()]
    )


@on_targets_with("learner")
def test_rev_of_a_model_with_buffers_is_that_of_predict(target):
    """Normalise by running statistics, with values other than the initial ones."""
    x = NdArrayType((N, 3), Dtype.float64)
    task = Task(layers.batch_norm(x), sgd(0.1), mse)
    learner = emit(task, target).load()().learner()
    rng = np.random.default_rng(0)
    for _ in range(3):
        learner.step(rng.normal(1, 2, (8, 3)), rng.normal(size=(8, 3)))
    arrays = [np.asarray(a) for a in (*learner.buffers.values(), *learner.parameters.values())]
    batch, dy = rng.normal(size=(4, 3)), rng.normal(size=(4, 3))
    mean, variance, _, weight, _ = arrays
    spread = np.sqrt(variance + 1e-5)
    found = learner.model.rev(*arrays, batch, dy)
    wanted = ((batch - mean) / spread * dy).sum(0), dy.sum(0), weight / spread * dy
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(a), b, rtol=1e-12)
    values = evaluate(reverse(task.predict_term), *arrays, batch, dy)
    np.testing.assert_allclose(values[0], np.asarray(learner.predict(batch)), rtol=1e-12)


@pytest.mark.parametrize("name", ["", "a b", 3])
def test_names_of_learning_rates_are_validated(name):
    with pytest.raises(OptionError):
        schedules.adjustable(0.1, name)


@on_targets_with("learner")
def test_masks_are_the_same_on_every_target_at_every_batch(target):
    x = NdArrayType((N, 7))
    model = build(
        lambda x: dropout(x.type, 0.3)(x * ops.broadcast(parameter("w", NdArrayType((7,))), x.shape)), [x]
    )
    learner = emit(Task(model, sgd(0.1), lambda y: ops.sum(y), labels=()), target).load()().learner(seed=9)
    for draws, size in enumerate((1, 4, 33)):
        _, gradients = learner.grads(np.ones((size, 7), np.float32))
        noise = ops.random.RandomUniform((size, 7), ops.random.stream_of("dropout")).ref(
            np.int64(9), np.int64(draws)
        )
        wanted = (np.where(noise >= 0.3, 1 / 0.7, 0)).sum(0)
        np.testing.assert_allclose(np.asarray(gradients["w"]), wanted, rtol=1e-5)


def stateful(target):
    """Build dense, batch norm and dropout, whose training depends on all tables."""
    A, B = NdArrayType((N,)), NdArrayType((3,))
    model = layers.dense(A, B, B) >> layers.batch_norm(A + B) >> dropout(A + B, 0.2)
    return emit(Task(model, optimisers.adam(0.1), mse), target).load()()


def held(learner):
    """Return every array of a learner, as bytes."""
    every = {**learner.parameters, **learner.buffers, **learner.state}
    return {name: np.asarray(array).tobytes() for name, array in every.items()}


DATA = tuple(np.random.default_rng(k).normal(size=(20, 3)).astype("f4") for k in range(2))
VALIDATION = tuple(np.random.default_rng(k).normal(size=(8, 3)).astype("f4") for k in (2, 3))


@on_targets_with("learner")
def test_a_checkpoint_holds_buffers(target, tmp_path):
    """Buffers are running statistics, on which predictions depend, and the counter of random numbers."""
    model = stateful(target)
    straight, other = model.learner(0), model.learner(1)
    for _ in range(3):
        straight.step(*DATA)
    checkpoint.save(straight, tmp_path / "weights")
    checkpoint.load(other, tmp_path / "weights")
    assert held(other) == held(straight)
    assert float(straight.step(*DATA)) == float(other.step(*DATA))


@on_targets_with("learner")
def test_fit_resumes_and_restores_buffers(target, tmp_path):
    """Resumption is exact, and the best epoch is restored."""
    model, options = stateful(target), dict(batch_size=7, validation=VALIDATION, patience=9, progress=False)
    straight, broken = model.learner(0), model.learner(0)
    history = fit(straight, DATA, epochs=6, **options)
    assert float(straight.loss(*VALIDATION)) == pytest.approx(history.best.validation["loss"], rel=1e-5)
    fit(broken, DATA, epochs=2, checkpoint=tmp_path / "run.safetensors", **options)
    again = model.learner(5)
    fit(again, DATA, epochs=6, checkpoint=tmp_path / "run.safetensors", resume=True, **options)
    assert held(again) == held(straight)


W = NdArrayType((3,))
INSIDE = {
    "a checkpoint": lambda: checkpointed(dropout(W)),
    "a loop": lambda: build(lambda x: ops.repeat(dropout(W), 2, x), [W]),
    "a branch": lambda: build(lambda x: ops.cond(ops.sum(x) > 0 * ops.sum(x), dropout(W), ops.sin, x), [W]),
    "both": lambda: build(lambda x: ops.repeat(checkpointed(dropout(W)), 2, x), [W]),
}


@pytest.mark.parametrize("place", INSIDE)
def test_predict_refuses_random_numbers(place):
    """Evaluation draws no random numbers, so there is no seed to pass."""
    model = INSIDE[place]() >> build(lambda x: x * parameter("w", W), [W])
    task = Task(model, sgd(0.1), lambda y: ops.sum(y), labels=())
    for kind in (Kind.PREDICT, Kind.LOSS, Kind.REV, Kind.REV_P):
        assert tables(task.entry(kind)[1]) == (Role.PARAMETER,)
    assert tables(task.entry(Kind.GRADS)[1]) == (Role.BUFFER, Role.PARAMETER)
    learner = emit(task).load()().learner(0)
    learner.parameters = {"w": np.ones(3, np.float32)}
    x = np.float32([1, 2, 3])
    assert learner.predict(x).tolist() == [1, 2, 3]
    assert learner.model.rev(*learner.parameters.values(), x, np.ones(3, np.float32))[0].tolist() == [1, 2, 3]
