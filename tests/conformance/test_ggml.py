"""The target ggml: steps of models on both ends of its versions, and what ggml gets wrong or aborts at."""

from __future__ import annotations

import numpy as np
import pytest

from catgrad import Dim, Dtype, NdArrayType, Task, build, layers, losses, obj, ops, sgd
from catgrad.functors import Expand
from catgrad.learn.optimisers import adamw
from catgrad.programs.program import Program, evaluate, lower
from catgrad.targets import get_backend
from catgrad.terms.structural import Constant
from catgrad.testing import Batches, Case, check_conformance, operation_cases, run_on
from tests.conformance import c_models
from tests.conformance.c_models import Model, classes, floats, pictures
from tests.covering import some
from tests.targets import cannot, emit
from tests.unit.line import X, Y, line

MISSING = cannot("ggml")
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"target ggml: {MISSING}")
N = Dim("batch")


def vit():
    """Build a vision transformer on patches of 4 x 4."""
    tokens, width = floats(N, 4), floats(16)
    patches = build(lambda x: ops.permute(ops.reshape(x, N, 16, 4), 0, 2, 1), [floats(N, 16, 2, 2)])
    model = layers.sequential(
        layers.conv(floats(N, 2, 8, 8), 16, 4, 4, name="patches"),
        patches,
        *(layers.transformer_block(tokens, width, 2, 32, name=f"block_{k}") for k in range(2)),
        build(lambda x: ops.mean(x, 1), [floats(N, 4, 16)]),
        layers.dense(floats(N), width, floats(5), layers.identity, name="head"),
    )
    return Task(model, adamw(0.01, epsilon=1e-3), losses.cross_entropy, "vit", classes(N))


MODELS = {name: c_models.MODELS[name] for name in ("mlp", "cnn", "lstm", "char_gpt")}
MODELS["vit"] = Model(vit, pictures, (5, 2, 5))


@pytest.mark.covering(0)
@pytest.mark.parametrize("kernels", some([True, False], [True]))
@pytest.mark.parametrize(
    "name",
    some(MODELS, ("mlp", "cnn")),
)
def test_ten_steps_equal_those_of_numpy(name, kernels, ggml_version):
    """Train on batches of several sizes, of which each has its graphs; without kernels as on a GPU."""
    model, rng = MODELS[name], np.random.default_rng(0)
    task = model.task()
    ours = emit(task, "ggml", kernels=kernels).load()().learner(1)
    theirs = emit(task).load()().learner(1)
    for step in range(10):
        batch = model.draw(rng, model.sizes[step % 3])
        assert ours.step(*batch) == pytest.approx(theirs.step(*batch), rel=1e-5, abs=1e-5)
    for table in ("parameters", "buffers", "state"):
        for key, array in getattr(theirs, table).items():
            np.testing.assert_allclose(getattr(ours, table)[key], array, rtol=1e-5, atol=1e-5, err_msg=key)


CASES = operation_cases()
BATCHES = {name: Batches(CASES, {"ggml": 64}) for name in ("installed", "newest")}


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=str)
def test_operations_as_nodes(case, ggml_version):
    check_conformance("ggml", case, batches=BATCHES[ggml_version], kernels=False)


def swapped(x):
    return ops.transpose(x)


NODES = get_backend("ggml").configured(kernels=False)
TRAPS = {
    "a clamped array is read again": lambda x: ops.clamp(x, -0.5, 0.5) + x,
    "sums of a transposed array": lambda x: ops.sum(swapped(x), 1),
    "means of a transposed array": lambda x: ops.mean(swapped(x), 1),
    "places of the greatest of equal elements": lambda x: ops.argmax(ops.floor(x), 1),
    "places in a transposed array": lambda x: ops.argmax(swapped(x), 1),
    "order of a transposed array": lambda x: ops.argsort(swapped(x), 1),
    "rows of a transposed array": lambda x: ops.gather(swapped(x), ops.array([2, 0, 2], Dtype.int64)),
    "the logarithm of a transposed array": lambda x: ops.log(swapped(x) * swapped(x) + 1),
    "a transposed array plus a row": lambda x: swapped(x) + ops.broadcast(ops.sum(x, 1), (7, 6)),
    "a column plus an array": lambda x: ops.broadcast(ops.sum(x, 1), (6, 7), (1,)) + x,
    "a column minus an array": lambda x: ops.broadcast(ops.sum(x, 1), (6, 7), (1,)) - x,
    "a number over an array": lambda x: 2 / (x * x + 1),
    "a row over an array": lambda x: ops.broadcast(ops.sum(x, 0), (6, 7)) / (x * x + 1),
    "the exact GELU": lambda x: ops.gelu(3 * x),
    "images of several examples": lambda x: ops.conv_transpose(
        ops.reshape(x, 2, 3, 7), ops.array([[[1.0, 2.0]], [[3.0, 4.0]], [[5.0, 6.0]]])
    ),
    "a permutation of six axes": lambda x: ops.permute(
        ops.reshape(ops.broadcast(x, (4, 6, 7)), 2, 2, 3, 2, 7, 1), *(4, 1, 5, 3, 0, 2)
    ),
    "whole numbers beyond 2^24": lambda x: ops.iota(3) * 100_000_007 + 1,
    "a kept view that is read again": lambda x: (ops.reshape(x * x, 42), 1 / (ops.reshape(x * x, 42) + 1)),
}
TRAPPED = [Case(name, build(trap, [NdArrayType((6, 7))])) for name, trap in TRAPS.items()]
TRAPPED_TOGETHER = {name: Batches(TRAPPED, {"ggml": len(TRAPPED)}) for name in ("installed", "newest")}


@pytest.mark.covering
@pytest.mark.parametrize("case", TRAPPED, ids=str)
def test_traps_of_ggml(case, ggml_version):
    """Compare with the reference what ggml computes wrongly, or aborts at, in its plain form."""
    x = np.random.default_rng(0).normal(size=(6, 7)).astype(np.float32)
    found_of_all = TRAPPED_TOGETHER[ggml_version].run_on(NODES, case, x)
    for found, wanted in zip(found_of_all, evaluate(case.term, x), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("kernels", some([True, False], [True]))
def test_nan_stays(kernels):
    """ggml's own relu, sign and maximum of NaN are numbers; with two threads nodes replace functions in C."""
    x = np.float32([[[np.nan, 1, np.inf, -2, -0.0, 3, -np.inf, 0.5]]])
    term = build(
        lambda x: [ops.relu(x), ops.sign(x), ops.max_pool(x, 2, 2), ops.max_pool(ops.relu(x), 2, 2)],
        [NdArrayType(x.shape)],
    )
    backend = get_backend("ggml").configured(kernels=kernels)
    function = lower(Expand(backend.has)(term), "f", doc="A function.")
    compiled = backend.emit(Program("edges", (function,))).load(threads=2)()
    for found, wanted in zip(compiled.f(x), evaluate(term, x), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_constants_of_16_bits():
    types = [NdArrayType((2,), dtype) for dtype in (Dtype.float16, Dtype.bfloat16)]
    term = build(
        lambda: [
            each
            for type in types
            for each in (
                Constant(type, -2.5)(),
                ops.array([1.0, 2.5], type.dtype),
                ops.iota(2100, type.dtype),
            )
        ],
        [],
    )
    for found, wanted in zip(run_on(get_backend("ggml"), term), evaluate(term), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_inputs_are_set_before_each_run():
    """Run a function twice: ggml reuses the memory of inputs."""
    model = emit(MODELS["mlp"].task(), "ggml").load()().learner(1)
    x, y = MODELS["mlp"].draw(np.random.default_rng(0), 17)
    assert model.loss(x, y) == model.loss(x, y)
    assert np.array_equal(model.predict(x), model.predict(x))


def embedded():
    words = NdArrayType((N, 3), Dtype.int64)
    forward = layers.sequential(
        layers.embedding(words, 5, floats(4), name="words"), build(lambda h: ops.sum(h, 1), [floats(N, 3, 4)])
    )
    return Task(forward, adamw(0.01), losses.mse, "embedded")


def test_an_index_outside_changes_nothing():
    """ggml would end the process at such an index."""
    learner = emit(embedded(), "ggml").load()().learner(1)
    before = dict(learner.parameters)
    words, y = np.array([[0, 1, 2]]), np.zeros((1, 4), np.float32)
    for outside in (5, -1):
        with pytest.raises(IndexError, match="lies outside"):
            learner.step(np.where(words == 2, outside, words), y)
        assert all(np.array_equal(array, before[name]) for name, array in learner.parameters.items())
    learner.step(words, y)
    assert not any(np.array_equal(array, before[name]) for name, array in learner.parameters.items())


def test_threads_do_not_change_results():
    task, draw = MODELS["cnn"].task(), MODELS["cnn"].draw
    batch = draw(np.random.default_rng(0), 5)
    one, two = (emit(task, "ggml").load(threads=n)().learner(1) for n in (1, 2))
    assert one.step(*batch) == pytest.approx(two.step(*batch), rel=1e-6)


def test_many_steps_equal_single_ones():
    task, rng = MODELS["mlp"].task(), np.random.default_rng(0)
    one, many = (emit(task, "ggml").load()().learner(1) for _ in range(2))
    batches = [MODELS["mlp"].draw(rng, 17) for _ in range(3)]
    xs, ys = (np.stack(arrays) for arrays in zip(*batches, strict=True))
    losses_of_one = [one.step(x, y) for x, y in zip(xs, ys, strict=True)]
    assert many.step_many(xs, ys).tolist() == losses_of_one


@pytest.mark.covering(0)
@pytest.mark.parametrize("name", ["steps", "k"])
def test_sizes_may_have_any_name(name):
    one, many = (emit(line(Dim(name)), "ggml").load()().learner() for _ in range(2))
    xs, ys = np.stack([X, 2 * X]), np.stack([Y, Y])
    assert many.step_many(xs, ys).tolist() == [one.step(x, y) for x, y in zip(xs, ys, strict=True)]


def test_an_array_is_replaced_alone():
    learner = emit(line(Dim("steps")), "ggml").load()().learner()
    before = dict(learner.parameters)
    learner.parameters["dense.bias"] = [1, 2, 3]
    assert learner.parameters["dense.bias"].tolist() == [1, 2, 3]
    assert np.array_equal(learner.parameters["dense.weight"], before["dense.weight"])


def test_a_model_without_parameters():
    model = layers.relu(obj(NdArrayType((N, 4))))
    ours, theirs = (
        emit(Task(model, sgd(0.1), losses.mse, "none"), name).load()() for name in ("ggml", "numpy")
    )
    assert ours.grads(X, 0 * X) == [pytest.approx(theirs.grads(X, 0 * X)[0])]
    assert ours.learner().step(X, 0 * X) == pytest.approx(theirs.learner().step(X, 0 * X))
    assert ours.learner().update({}) is None


def test_an_unknown_device_is_refused():
    from catgrad.errors import ToolError

    with pytest.raises(ToolError, match="ggml has no device CUDA7"):
        emit(embedded(), "ggml").load(device="CUDA7")().learner(1)
