"""Key/value caches: position by position, transformers agree with causal attention."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catgrad import Dtype, Functions, NdArrayType, Task, emit, layers, losses, sgd
from catgrad.errors import OptionError, ShapeError
from catgrad.programs.ports import Kind
from catgrad.programs.program import evaluate
from catgrad.targets import get_backend
from catgrad.testing import run_on
from examples.char_gpt import gpt
from tests.targets import on_targets

TOKENS, MEMORY = 5, 6
ONE, FEATURES = NdArrayType((1, 1)), NdArrayType((4,))


def task(batch=1, depth=2, heads=2, remembering=True):
    """Build a GPT of all positions, or one with a key/value cache."""
    model = gpt(TOKENS, batch, depth, 4 * heads, heads, MEMORY, remembering)
    time = 1 if remembering else MEMORY
    return Task(model, sgd(0.1), losses.cross_entropy, "writer", (NdArrayType((batch, time), Dtype.int64),))


def run(task, buffers, parameters, tokens):
    """Run the model in training mode for each position, and return the outputs in order."""
    term, found = task.entry(Kind.TRAINED)[0], []
    for k in range(tokens.shape[1]):
        *buffers, scores = evaluate(term, *buffers, *parameters, tokens[:, k : k + 1])
        found.append(scores[:, 0])
    return np.stack(found, axis=1), buffers


def first(task, seed=0):
    """Return an empty cache, and parameters large enough for positions to differ."""
    rng = np.random.default_rng(seed)
    buffers = [np.zeros(s.type.shape, s.type.dtype.numpy) for s in task.buffers]
    return buffers, [rng.normal(size=s.type.shape).astype(np.float32) for s in task.parameters]


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 3), st.integers(1, 2), st.integers(1, 2), st.data())
def test_a_key_value_cache_computes_causal_attention(batch, depth, heads, data):
    one, whole = (task(batch, depth, heads, remembering) for remembering in (True, False))
    assert [(s.name, s.type) for s in one.parameters] == [(s.name, s.type) for s in whole.parameters]
    rows = st.lists(st.integers(0, TOKENS - 1), min_size=MEMORY, max_size=MEMORY)
    tokens = np.array(data.draw(st.lists(rows, min_size=batch, max_size=batch)))
    buffers, parameters = first(one)
    [wanted] = evaluate(whole.entry(Kind.PREDICT)[0], *parameters, tokens)
    found, _ = run(one, buffers, parameters, tokens)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@settings(max_examples=30, deadline=None)
@given(
    kv_heads=st.integers(1, 2),
    group=st.integers(1, 3),
    rotary=st.sampled_from([None, 10.0]),
    memory=st.integers(1, 6),
    window=st.none() | st.integers(1, 6),
    length=st.integers(1, 7),
    seed=st.integers(0, 9),
)
def test_a_full_cache_forgets_the_earliest_positions(kv_heads, group, rotary, memory, window, length, seed):
    """Memory of n positions computes attention with a window of n, at any length."""
    rows = min(memory, window or memory)
    features = NdArrayType((3,), Dtype.float64)
    options = dict(rotary=rotary, kv_heads=kv_heads, head_dim=2)
    one, whole = (
        layers.attention(
            NdArrayType((2, t), Dtype.float64), features, kv_heads * group, True, **options, **more
        )
        for t, more in ((1, {"memory": memory, "window": window}), (length, {"window": rows}))
    )
    functions = Functions({"read": one, "score": whole})
    assert {s.type.shape for s in functions.buffers if s.type.rank} == {(2, kv_heads, rows, 2)}
    rng = np.random.default_rng(seed)
    buffers, parameters = (
        [draw(s.type.shape).astype(s.type.dtype.numpy) for s in slots]
        for draw, slots in ((np.zeros, functions.buffers), (partial(rng.normal, 0, 1), functions.parameters))
    )
    x = rng.normal(size=(2, length, 3))
    read, score = (functions.entry(name)[0] for name in ("read", "score"))
    [wanted] = evaluate(score, *parameters, x)
    for k in range(length):
        *buffers, found = evaluate(read, *buffers, *parameters, x[:, k : k + 1])
        np.testing.assert_allclose(found[:, 0], wanted[:, k], rtol=1e-9, atol=1e-12)


def test_position_0_begins_a_new_text():
    """The cache has rows of an earlier text."""
    model = task()
    buffers, parameters = first(model)
    tokens = np.random.default_rng(1).integers(0, TOKENS, (1, MEMORY))
    wanted, buffers = run(model, buffers, parameters, tokens)
    names = [s.name for s in model.buffers]
    assert buffers[names.index("position")] == MEMORY
    assert all(np.abs(b).max() > 0 for b in buffers)
    buffers[names.index("position")] = np.array(0)
    found, _ = run(model, buffers, parameters, tokens)
    np.testing.assert_array_equal(found, wanted)


def test_a_position_beyond_the_context_is_an_error():
    model = task()
    buffers, parameters = first(model)
    _, buffers = run(model, buffers, parameters, np.zeros((1, MEMORY), np.int64))
    with pytest.raises(IndexError):
        run(model, buffers, parameters, np.zeros((1, 1), np.int64))


def test_a_learner_and_the_model_with_a_cache_have_the_same_parameters():
    learner = emit(task(remembering=False), "numpy").load()().learner(0)
    model = task()
    tokens = np.random.default_rng(2).integers(0, TOKENS, (1, MEMORY))
    parameters = [learner.parameters[s.name] for s in model.parameters]
    found, _ = run(model, first(model)[0], parameters, tokens)
    np.testing.assert_allclose(found, learner.predict(tokens), rtol=1e-4, atol=1e-5)


def rotating():
    """Build attention of heads that share keys, with rotary positions and a window of two."""
    options = dict(memory=MEMORY, rotary=10.0, kv_heads=1, window=2)
    return Task(layers.attention(NdArrayType((2, 1)), FEATURES, 2, **options), sgd(0.1), losses.mse)


@pytest.mark.covering
@pytest.mark.filterwarnings("ignore:.*the editor takes about")
@on_targets
@pytest.mark.parametrize(
    ("model", "texts"),
    [
        (lambda: task(batch=2, depth=1, heads=1), [np.array([[token], [0]]) for token in (3, 1)]),
        (rotating, [np.full((2, 1, 4), number, np.float32) for number in (1.0, 0.0, -2.0)]),
    ],
    ids=["gpt", "rotating"],
)
def test_targets_agree_on_models_with_a_cache(target, model, texts):
    model = model()
    term, given = model.entry(Kind.TRAINED)[0], [x for table in first(model) for x in table]
    for x in texts:
        wanted, found = evaluate(term, *given, x), run_on(get_backend(target), term, *given, x)
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
        given[: len(wanted) - 1] = wanted[:-1]


TWO, NONE = NdArrayType((1, 2)), NdArrayType(())


@pytest.mark.parametrize(
    ("layer", "error", "sentence"),
    [
        (
            lambda: layers.attention(TWO, FEATURES, 2, memory=8),
            ShapeError,
            r"one position at a time, but it has f32\[1,2\], in attention",
        ),
        (lambda: layers.position_embedding(NONE, FEATURES, 8), ShapeError, "one position .*, in positions"),
        (lambda: layers.transformer_block(ONE, FEATURES, 2, memory=0), OptionError, "0, in block.self_attn"),
        (lambda: layers.position_embedding(ONE, FEATURES, 0), OptionError, "it is 0, in positions"),
        (
            lambda: layers.attention(ONE, FEATURES, 2, memory="long"),
            OptionError,
            "it is 'long', in attention",
        ),
    ],
)
def test_models_that_cannot_have_a_cache_are_refused(layer, error, sentence):
    with pytest.raises(error, match=sentence):
        layer()
