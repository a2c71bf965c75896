"""Loops over layers that draw random numbers: bits are those of the layers written out."""

from __future__ import annotations

import re

import numpy as np
import pytest

from catgrad import Dim, Dtype, NdArrayType, Task, build, emit, layers, mse, ops, sgd
from catgrad.errors import DtypeError
from catgrad.functors import (
    Expand,
    evaluation,
    factor_parameters,
    factor_run_numbers,
    reverse,
    roll,
    substitute,
)
from catgrad.functors.rows import DrawsByRow
from catgrad.initialisers import ZEROS, Normal, Stored, Uniform
from catgrad.learn.functions import initial_term
from catgrad.ops.random import KEY, STREAM, Draw, Dropout, with_stream
from catgrad.ops.scan import Scan
from catgrad.programs.program import evaluate
from catgrad.terms.block import any_operation
from catgrad.terms.canonical import digest
from catgrad.terms.op import OPS
from catgrad.terms.state import DRAWS, SEED, Slot
from catgrad.terms.term import edges, singleton

WIDTH = NdArrayType((6,))

DRAWN = [
    (op, types)
    for kind in ("RandomBits", "RandomUniform", "RandomNormal", "Dropout")
    for op, types in OPS[kind].examples()
    if with_stream(op)[1] is not None
]


def block(name, dtype=Dtype.float32):
    batch, width = NdArrayType((2, 4), dtype), NdArrayType((6,), dtype)
    return layers.transformer_block(batch, width, heads=2, hidden=8, dropout=0.3, name=name)


def task(count, rolls=False, dtype=Dtype.float32):
    model = chain(*(block(f"block{k}", dtype) for k in range(count)))
    return Task(model, sgd(0.1, 0.9), mse, "net", rolls=rolls)


def chain(first, *rest):
    for layer in rest:
        first = first >> layer
    return first


def loops(term):
    return sum(isinstance(edge.op, Scan) for edge in edges(term))


def assert_equal(one, other, rtol=0.0):
    """Compare two terms on random arrays, bit by bit unless told otherwise; numbers of the run are small."""
    assert one.source == other.source
    rng = np.random.default_rng(0)
    arrays = [
        np.asarray(rng.integers(0, 9, t.shape) if t is KEY else rng.normal(size=t.shape), t.dtype.numpy)
        for t in one.source.table
    ]
    for expected, found in zip(evaluate(one, *arrays), evaluate(other, *arrays), strict=True):
        np.testing.assert_allclose(found, expected, rtol, rtol)


def opened(model):
    """Return the parameters of a model, and the term that takes these and the numbers of the run."""
    parameters, term = factor_parameters(model)
    return parameters, factor_run_numbers(term)[1]


@pytest.mark.parametrize(("op", "types"), DRAWN, ids=str)
def test_a_stream_may_be_an_operand(op, types):
    other, stream = with_stream(op)
    plain = singleton(op, *types)
    given = build(lambda *x: other(*x, ops.array(stream, STREAM.dtype)), types)
    assert_equal(plain, given)
    assert_equal(Expand()(plain), Expand()(given))
    assert_equal(reverse(plain), reverse(given))
    assert_equal(evaluation(plain), evaluation(given))


def test_a_stream_that_is_an_operand_must_be_given():
    for op in (ops.random.RandomBits((2,), None), ops.random.RandomNormal((2,), None)):
        with pytest.raises(DtypeError, match=r"i64\[\], i64\[\], u32\[\]"):
            op.outputs(KEY, KEY)
    with pytest.raises(DtypeError, match="give"):
        ops.random.RandomBits((2,), 3).outputs(KEY, KEY, STREAM)


@pytest.mark.parametrize("term", ["trained", "predict", "loss", "grads", "step"])
def test_layers_with_dropout_become_a_loop_with_the_same_masks(term):
    """Gradients are added in another order where a value is read twice."""
    plain, rolled = (getattr(task(4, rolls, Dtype.float64), f"{term}_term") for rolls in (False, True))
    assert loops(rolled) and not loops(plain)
    assert_equal(plain, rolled, rtol=1e-9 if term in ("grads", "step") else 0)


def test_nothing_is_drawn_in_evaluation():
    term = task(4, rolls=True).predict_term
    assert not any_operation(term, lambda op: isinstance(op, (Draw, Dropout)))


def test_layers_of_one_name_have_the_streams_that_they_have_without_loops():
    model = chain(*(block("block") for _ in range(4)))
    (parameters, plain), (others, rolled) = opened(model), opened(roll(model))
    assert loops(rolled)
    assert parameters == others
    assert_equal(plain, rolled)


@pytest.mark.parametrize("draw", [ops.random_uniform, ops.random_normal])
def test_a_stream_that_layers_share_is_no_table(draw):
    def layer(x):
        noise = draw(x.shape, 7, SEED(), DRAWS())
        return ops.tanh(ops.exp(ops.sin(x * 0.5) + noise) - ops.cos(x)) * x + 1

    model = chain(*(build(layer, [WIDTH]) for _ in range(4)))
    _, rolled = opened(roll(model))
    [scan] = [edge.op for edge in edges(rolled) if isinstance(edge.op, Scan)]
    assert scan.scanned == 0
    assert_equal(opened(model)[1], rolled)


def test_loops_draw_by_the_row_of_the_whole_batch():
    """The functor that does, and rolling, may be applied in any order."""
    n = NdArrayType((Dim("n"),))
    drop = (layers.dense(n, WIDTH, WIDTH) >> layers.dropout(n + WIDTH, 0.4, f"drop{k}") for k in range(8))
    norm = layers.layer_norm(n, WIDTH, name="norm")
    model, by_row = chain(*(layers.residual(each >> norm) for each in drop)), DrawsByRow(Dim("n"))
    terms = (opened(each)[1] for each in (by_row(model), roll(by_row(model)), by_row(roll(model))))
    plain, *others = (substitute(term, {"n": 3}) for term in terms)
    for term in others:
        assert loops(term)
        assert_equal(plain, term)


def test_initial_values_are_drawn_in_a_loop():
    shapes = {"weight": ((4, 3), Normal(0, 0.1)), "bias": ((3,), Uniform(-1, 1)), "scale": ((3,), ZEROS)}
    slots = [
        Slot(f"layer.{k}.{name}", NdArrayType(shape), initial)
        for k in range(6)
        for name, (shape, initial) in shapes.items()
    ]
    plain = initial_term(slots)
    rolled = roll(plain)
    assert loops(rolled) == 1
    assert_equal(plain, rolled)


def test_stored_initial_values_stay_as_they_are():
    slots = [
        Slot(f"layer.{k}.{name}", WIDTH, Stored(np.arange(6, dtype=np.float32) + k) if not i else Normal())
        for k in range(5)
        for i, name in enumerate(("a", "b", "c"))
    ]
    plain = initial_term(slots)
    assert_equal(plain, roll(plain))


def test_hashes_of_draws_are_those_of_files_written_before():
    uniform, keys = ops.random.RandomUniform((2,), 7), (KEY, KEY, KEY)
    assert digest(singleton(uniform, *keys)).startswith("09c5f620c6ca5e3d16d48b2777a5dfc5")
    dropout, types = Dropout("block.dropout", 0.25), (NdArrayType((3,)), KEY, KEY)
    assert digest(singleton(dropout, *types)).startswith("fa638ac465bc7faa5b6f283214b21312")


def test_a_loop_in_c_draws_what_layers_written_out_draw():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 2, 4, 6)).astype(np.float32)
    found = []
    for unroll in (False, True):
        learner = emit(task(4), "c", roll=not unroll).load()().learner(3)
        initial = {**learner.parameters, **learner.state}
        first = {name: np.array(array) for name, array in initial.items()}
        losses = [float(learner.step(x, y)) for _ in range(5)]
        found.append((first, losses, np.asarray(learner.predict(x))))
    (first, losses, predicted), (expected, expected_losses, expected_predicted) = found
    assert all(np.array_equal(first[name], expected[name]) for name in expected)
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-6)
    np.testing.assert_allclose(predicted, expected_predicted, rtol=1e-5, atol=1e-6)


def test_lines_of_c_do_not_grow_with_the_number_of_layers_that_draw():
    """Lines that name a layer are entries of tables, and members of structs."""
    few, many = (emit(task(count), "c").files["net.c"] for count in (4, 12))

    def common(source):
        lines = (line.strip() for line in source.splitlines())
        tables = re.compile(r"block\d|^static const uint32_t|^(\d+u, )*\d+u[,}]")
        return [line for line in lines if line and not tables.search(line)]

    assert len(common(few)) == len(common(many))
    assert "random_bits" in few
