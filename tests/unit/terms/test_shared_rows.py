"""Random numbers of shared rows: each part of a batch draws what the whole batch would."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from catgrad.backends.numpy import BACKEND as NUMPY

from catgrad import Dim, Dtype, Functions, NdArrayType, Task, build, layers, mixed_precision, mse, ops, sgd
from catgrad.errors import OptionError, ShapeError, UnsupportedOp
from catgrad.learn.layers import dropout
from catgrad.learn.rows import shared_rows
from catgrad.terms.op import Op
from catgrad.terms.state import DRAWS, SEED
from catgrad.testing import isomorphic
from tests.conformance.c_models import MODELS
from tests.models import mlp
from tests.targets import emit

N, TIME = Dim("batch"), Dim("time")
X = NdArrayType((N, 6))
SHARES = (0, 3, 4, 7)
"""The first rows of the shares of a batch of 7, and its end."""


def masked(x):
    return dropout(x.type, 0.4)(x)


def looped(x):
    """Draw in the body of a loop over time, in a checkpoint and in a branch."""
    rows = ops.permute(ops.reshape(x, N, 2, 3), 1, 0, 2)
    _, y = ops.scan(
        lambda c, row: (c + 1, masked(row) * ops.broadcast(c, row.shape)), ops.array(1.0, x.dtype), rows
    )
    y = ops.reshape(ops.permute(y, 1, 0, 2), N, 6)
    z = ops.checkpoint(lambda y: ops.checkpoint(masked, y) + x, y)
    return ops.cond(ops.array(True), masked, lambda z: z * 2, z)


def noisy(x):
    """Add normal and uniform numbers to the rows, and numbers that all rows have in common."""
    normal = ops.random_normal((N, 6), 5, SEED(), DRAWS(), x.dtype)
    uniform = ops.random_uniform((1, N, 6), 6, SEED(), DRAWS(), x.dtype)
    common = ops.random_normal((6,), 7, SEED(), DRAWS(), x.dtype)
    return x + normal + ops.reshape(uniform, N, 6) + ops.broadcast(common, (N, 6))


def task(function, dtype=Dtype.float32):
    x = NdArrayType(X.shape, dtype)
    weighted = layers.linear(NdArrayType((N,), dtype), NdArrayType((6,), dtype), NdArrayType((6,), dtype))
    return Task(build(function, [x]) >> weighted >> dropout(x), sgd(0.1), mse, "net")


def learner(model):
    return emit(model, NUMPY).load()().learner(3)


def both(model, arrays):
    """Return loss and gradients of a batch, and the mean of those of its shares, at the second draw."""
    whole, part = learner(model), learner(shared_rows(model))
    whole.grads(*arrays)
    total = {}
    for begin, end in pairwise(SHARES):
        part.buffers |= {"draws": np.int64(1), "first_row": np.int64(begin)}
        loss, gradients = part.grads(*(array[begin:end] for array in arrays))
        for name, array in {"loss": loss, **gradients}.items():
            total[name] = total.get(name, 0) + array.astype(np.float64) * (end - begin) / SHARES[-1]
    assert int(part.buffers["first_row"]) == SHARES[-2]
    loss, gradients = whole.grads(*arrays)
    return {"loss": loss, **gradients}, total


def drawn(function, dtype=Dtype.float32):
    rng = np.random.default_rng(0)
    return task(function, dtype), [rng.normal(size=(7, 6)).astype(dtype.numpy) for _ in "xy"]


def sampled(name):
    return MODELS[name].task(), MODELS[name].draw(np.random.default_rng(0), 7)


CASES = {
    "masked": lambda: drawn(masked),
    "masked_halves": lambda: drawn(masked, Dtype.float16),
    "looped": lambda: drawn(looped),
    "noisy": lambda: drawn(noisy),
    "gpt": lambda: sampled("char_gpt"),
}


@pytest.mark.parametrize("name", CASES)
def test_shares_of_a_batch_have_the_gradients_of_the_whole(name):
    model, arrays = CASES[name]()
    expected, found = both(model, arrays)
    tolerance = 5e-3 if name == "masked_halves" else 1e-5
    for key, array in expected.items():
        np.testing.assert_allclose(found[key], array, rtol=tolerance, atol=tolerance, err_msg=key)


def test_shares_without_it_have_other_masks():
    """The comparison above is not one of equal masks by chance."""
    model, (x, y) = drawn(masked)
    one, other = learner(model), learner(model)
    (_, a), (_, b) = one.grads(x, y), other.grads(x[3:], y[3:])
    assert not np.allclose(a["linear.weight"], b["linear.weight"], atol=1e-3)
    shared = learner(shared_rows(model))
    shared.buffers["first_row"] = np.int64(3)
    found, expected = shared.grads(x[3:], y[3:]), learner(shared_rows(model)).grads(x[3:], y[3:])
    assert float(found[0]) != float(expected[0])


def test_two_layers_of_one_name_have_masks_of_their_own():
    """The functor does not rename layers, from whose names streams are."""
    model = (
        dropout(X, 0.4)
        >> dropout(X, 0.4)
        >> layers.linear(NdArrayType((N,)), NdArrayType((6,)), NdArrayType((2,)))
    )
    arrays = [np.ones((7, n), np.float32) for n in (6, 2)]
    expected, found = both(Task(model, sgd(0.1), mse, "net"), arrays)
    for key, array in expected.items():
        np.testing.assert_allclose(found[key], array, rtol=1e-5, atol=1e-6, err_msg=key)


def test_a_model_that_draws_nothing_of_the_batch_is_unchanged():
    plain = mlp()
    assert isomorphic(shared_rows(plain).model, plain.model)
    assert shared_rows(plain).buffers == ()
    common = build(lambda x: x + ops.broadcast(ops.random_normal((6,), 7, SEED(), DRAWS()), x.shape), [X])
    assert isomorphic(shared_rows(common), common)


def test_sharing_twice_is_sharing_once_also_in_mixed_precision_and_evaluation():
    model = task(looped)
    once = shared_rows(model)
    assert isomorphic(shared_rows(once).model, once.model)
    assert isomorphic(mixed_precision(once).model, shared_rows(mixed_precision(model)).model)
    x = np.ones((2, 6), np.float32)
    assert np.array_equal(learner(once).predict(x), learner(model).predict(x))


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda x: ops.permute(masked(ops.permute(x, 1, 0)), 1, 0), r"\[6,batch\]"),
        (lambda x: ops.reshape(masked(ops.reshape(x, N * 6)), N, 6), r"\[6\*batch\]"),
        (lambda x: masked(x @ ops.permute(x, 1, 0)) @ x, r"\[batch,batch\]"),
    ],
)
def test_the_batch_must_be_the_first_axis_of_what_is_drawn_alone(function, shape):
    with pytest.raises(
        ShapeError, match=f"must have the batch, batch, as their first axis alone, but .*{shape}"
    ):
        shared_rows(build(function, [X]))


class Noisy(Op, register=False):
    """Add uniform numbers."""

    def type(self, x, seed, counter):
        return x

    def body(self, x, seed, counter):
        return x + ops.random_uniform(x.shape, 3, seed, counter)

    def ref(self, x, seed, counter):
        return x


def test_a_definition_that_draws_in_its_body_is_refused():
    with pytest.raises(
        UnsupportedOp, match="must be drawn by dropout, or by operations of the model, but Noisy"
    ):
        shared_rows(build(lambda x: Noisy()(x, SEED(), DRAWS()), [X]))


@pytest.mark.parametrize(
    "types",
    [[], [NdArrayType((4, 6))], [X, NdArrayType((TIME, 6))], [X, NdArrayType(())], [NdArrayType((2 * N,))]],
)
def test_every_input_must_begin_with_one_symbol(types):
    with pytest.raises(
        OptionError, match="inputs that begin with one symbolic axis, the batch, but its inputs are"
    ):
        shared_rows(build(lambda *x: [*x], types))


def test_functions_are_refused():
    with pytest.raises(OptionError, match="must be those of a Task or a term, but they are of Functions"):
        shared_rows(Functions({"predict": mlp().model}))
