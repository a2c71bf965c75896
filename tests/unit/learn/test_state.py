"""Dropout, batch norm, random numbers and run numbers are arguments and results."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from catgrad import Dim, Dtype, NdArrayType, Task, build, layers, mse, ops, sgd
from catgrad.errors import OptionError, TermError
from catgrad.functors import factor_buffers
from catgrad.learn import optimisers, schedules
from catgrad.learn.layers import buffer, dropout, update
from catgrad.ops.random import RandomBits, RandomNormal, RandomUniform, philox, stream_of
from catgrad.programs.program import evaluate
from catgrad.targets import get_backend
from catgrad.terms.term import edges
from catgrad.testing import run_on
from tests.targets import emit, on, on_all_targets, on_learners

BATCH, INPUT, OUTPUT = NdArrayType((Dim("batch"),)), NdArrayType((4,)), NdArrayType((3,))


def noisy(rate: float = 0.5, optimiser=None) -> Task:
    """Build dense, dropout, dense."""
    model = layers.sequential(
        layers.dense(BATCH, INPUT, OUTPUT, layers.relu),
        dropout(BATCH + OUTPUT, rate),
        layers.dense(BATCH, OUTPUT, OUTPUT, layers.relu),
    )
    return Task(model, optimiser or sgd(0.1), mse, "noisy")


# Counter, key and answer, from the known-answer tests that the authors of Philox publish.
KNOWN = {
    "00000000 00000000 00000000 00000000": ("00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    "ffffffff ffffffff ffffffff ffffffff": ("ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    "243f6a88 85a308d3 13198a2e 03707344": ("a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
}


@pytest.mark.parametrize("counter", KNOWN)
def test_philox_passes_known_answer_tests(counter):
    key, answer = KNOWN[counter]
    words = [tuple(np.uint64(int(word, 16)) for word in text.split()) for text in (counter, key)]
    assert " ".join(f"{word:08x}" for word in philox(*words)) == answer


@on_all_targets
@pytest.mark.parametrize("seed", [0, 1, -1, 2**40 + 3])
def test_all_targets_draw_the_same_bits(target, seed):
    term = build(lambda s, c: ops.random_bits((3, 5), 7, s, c), [ops.random.KEY] * 2)
    keys = np.array(seed), np.array(2**33 + 1)
    [wanted] = evaluate(term, *keys)
    [found] = run_on(get_backend(target), term, *keys)
    assert np.array_equal(found, wanted)


@on_all_targets
@pytest.mark.parametrize("first", [0, 1, 6, 2**31 + 3])
def test_all_targets_draw_from_any_element_on(target, first):
    if target == "scratch" and first > 6:
        pytest.skip("Scratch also draws all elements before")
    term = build(
        lambda *keys: [op((3, 5), 7)(*keys) for op in (RandomBits, RandomUniform, RandomNormal)],
        [ops.random.KEY] * 3,
    )
    keys = np.array(-1), np.array(2**33 + 1), np.array(first)
    *wanted, normal = evaluate(term, *keys)
    *found, other = run_on(get_backend(target), term, *keys)
    assert all(map(np.array_equal, found, wanted))
    np.testing.assert_allclose(other, normal, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("op", [RandomBits, RandomUniform, RandomNormal])
@pytest.mark.parametrize("first", range(9))
def test_a_draw_from_a_later_element_is_a_part_of_the_whole(op, first):
    keys = np.int64(5), np.int64(2**33 + 1)
    whole = op((5, 7), 7).ref(*keys).reshape(-1)
    assert np.array_equal(op((2, 3), 7).ref(*keys, np.int64(first)).reshape(-1), whole[first : first + 6])


def test_random_numbers_have_the_expected_moments():
    def draw(seed, counter):
        shape = (100, 1000)
        return ops.random_uniform(shape, 3, seed, counter), ops.random_normal(shape, 4, seed, counter)

    uniform, normal = evaluate(build(draw, [ops.random.KEY] * 2), np.int64(5), np.int64(0))
    assert uniform.min() >= 0 and uniform.max() < 1
    assert abs(uniform.mean() - 0.5) < 0.005 and abs(uniform.var() - 1 / 12) < 0.002
    assert abs(normal.mean()) < 0.01 and abs(normal.var() - 1) < 0.02
    assert abs((normal**4).mean() - 3) < 0.1


@on("torch", "jax", "c")
def test_first_values_are_the_same_on_every_target(target):
    task = Task(
        layers.embedding(NdArrayType((2,), Dtype.int64), 9, OUTPUT)
        >> layers.dense(NdArrayType((2,)), OUTPUT, OUTPUT),
        sgd(0.1),
        mse,
    )
    ours, theirs = emit(task).load()().init(7), emit(task, target).load()().init(7)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-5, atol=1e-6)
    for a, b in zip(ours[1:], theirs[1:], strict=True):
        # The bits are the same, but XLA rounds a + b · c once, and so do C's compilers.
        np.testing.assert_allclose(a, b, rtol=0 if target == "torch" else 1e-6)


@on_learners
def test_dropout_is_for_training_only(target):
    learner = emit(noisy(), target).load()().learner(1)
    x, y = np.ones((64, 4), np.float32), np.ones((64, 3), np.float32)
    assert np.array_equal(learner.predict(x), learner.predict(x))
    assert np.ptp(np.asarray(learner.predict(x)), axis=0).max() == 0
    assert "buffers" not in type(learner.model).predict.__doc__
    loss, gradients = learner.grads(x, y)
    again, _ = learner.grads(x, y)
    assert float(loss) != float(again), "each batch has a mask of its own"
    assert int(learner.buffers["draws"]) == 2 and int(learner.buffers["seed"]) == 1
    assert gradients.keys() == learner.parameters.keys()


def test_dropout_preserves_the_mean_and_its_reverse_has_the_same_mask():
    x = NdArrayType((1000,), Dtype.float64)
    op = ops.random.Dropout("d", 0.25)
    from catgrad.functors import reverse
    from catgrad.terms.term import singleton

    keys = np.int64(3), np.int64(9)
    y, dx, *_ = evaluate(
        reverse(singleton(op, x, *[ops.random.KEY] * 2)), np.ones(1000), *keys, np.full(1000, 2.0)
    )
    assert set(np.unique(y)) == {0, 1 / 0.75}
    assert abs((y == 0).mean() - 0.25) < 0.05
    assert np.array_equal(dx, 2 * y)


def test_masks_depend_on_the_names_of_layers():
    def two(x):
        return dropout(x.type)(x), dropout(x.type, name="other")(x)

    task = Task(build(two, [NdArrayType((50,))]), sgd(0.1), lambda a, b, y, z: mse(a, y) + mse(b, z))
    keys, x = (np.int64(7), np.int64(0)), np.ones(50, np.float32)
    _, *new = evaluate(task.grads_term, *keys, x, x, x)
    assert [int(n) for n in new] == [7, 1]
    a, b = evaluate(task.trained_term, *keys, x)[2:]
    assert not np.array_equal(a, b)
    assert stream_of("dropout") != stream_of("other")


def test_composed_dropouts_have_distinct_names():
    x = NdArrayType((50,), Dtype.float64)
    task = Task(dropout(x) >> dropout(x), sgd(0.1), mse)
    *_, y = evaluate(task.trained_term, np.int64(0), np.int64(0), np.ones(50))
    assert set(np.unique(y)) == {0, 4}
    assert abs((y > 0).mean() - 0.25) < 0.2


@pytest.mark.parametrize("rate", [-0.1, 1.0, 2.0])
def test_dropout_rates_are_validated(rate):
    with pytest.raises(OptionError, match="a dropout rate must lie in"):
        dropout(INPUT, rate)


def test_updated_buffers_must_exist():
    term = build(lambda x: (update("count", x), x)[1], [INPUT])
    with pytest.raises(TermError, match="each buffer must be read once"):
        factor_buffers(term)


def test_a_buffer_without_update_is_constant():
    task = Task(build(lambda x: x + buffer("shift", INPUT), [INPUT]), sgd(0.1), mse)
    learner = emit(task).load()().learner()
    learner.step(np.ones(4, np.float32), np.ones(4, np.float32))
    assert np.array_equal(learner.buffers["shift"], np.zeros(4))


@on_learners
def test_the_learning_rate_may_be_a_run_number(target):
    task = Task(layers.linear(BATCH, INPUT, OUTPUT), sgd(schedules.adjustable(0.5)), mse)
    learner = emit(task, target).load()().learner()
    assert float(learner.state["learning_rate"]) == 0.5
    x, y = np.ones((2, 4), np.float32), np.zeros((2, 3), np.float32)
    before = np.asarray(learner.parameters["linear.weight"]).copy()
    learner.step(x, y)
    moved = np.asarray(learner.parameters["linear.weight"]) - before
    learner.parameters["linear.weight"] = before
    learner.state["learning_rate"] = np.float32(0.25)
    learner.step(x, y)
    np.testing.assert_allclose(np.asarray(learner.parameters["linear.weight"]) - before, moved / 2, rtol=1e-5)


@on_learners
def test_accumulated_gradients_are_a_step(target):
    """k micro-batches, their mean given to `update`, equal one batch."""
    make = partial(Task, layers.dense(BATCH, INPUT, OUTPUT), optimisers.adam(0.1), mse)
    whole, parts = (emit(make(), target).load()().learner(3) for _ in range(2))
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(8, 4)).astype("f4"), rng.normal(size=(8, 3)).astype("f4")
    for _ in range(3):
        whole.step(x, y)
        both = [parts.grads(x[i : i + 4], y[i : i + 4])[1] for i in (0, 4)]
        parts.update({name: (both[0][name] + both[1][name]) / 2 for name in both[0]})
    for name, array in whole.parameters.items():
        np.testing.assert_allclose(
            np.asarray(parts.parameters[name]), np.asarray(array), rtol=1e-4, atol=1e-6
        )
    assert int(whole.state["step"]) == int(parts.state["step"]) == 3


def test_dropouts_of_blocks_have_distinct_names():
    A, B = NdArrayType((BATCH.shape[0], 6)), NdArrayType((8,))
    block = partial(layers.transformer_block, A, B, 2, dropout=0.5)
    task = Task(layers.sequential(block(name="block"), block(name="block")), sgd(0.1), mse)
    names = [edge.op.name for edge in edges(task.trained_term) if isinstance(edge.op, ops.random.Dropout)]
    kinds = ("dropout1", "dropout", "dropout2")
    assert sorted(names) == sorted(f"{k}.block.{kind}" for k in (0, 1) for kind in kinds)
    learner = emit(task).load()().learner(0)
    x = np.random.default_rng(0).normal(size=(3, 6, 8)).astype(np.float32)
    assert np.array_equal(learner.predict(x), learner.predict(x))
    assert float(learner.grads(x, x)[0]) != float(learner.grads(x, x)[0])
