"""Emitted JAX under jax.jit and jax.grad, with 32 and 64 bits."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from catgrad import Dim, Dtype, NdArrayType, Task, build, layers, mse, ops, sgd
from catgrad.functors import Expand
from catgrad.programs.program import Program, evaluate, lower
from catgrad.targets import get_backend
from catgrad.testing import run_on
from tests.models import TASKS, arguments
from tests.targets import emit

jax = pytest.importorskip("jax", reason="JAX, which runs what is tested here, is not installed")
jnp = jax.numpy
JAX = get_backend("jax")
KEY = ops.random.KEY


def source_of(term, backend=JAX):
    function = lower(Expand(backend.has)(term), "f", doc="The term under test.")
    return backend.emit(Program("case", (function,))).source


def module(source):
    """Load the plain functions of an emitted file."""
    loaded = ModuleType("emitted")
    exec(source, vars(loaded))
    return loaded


def recurrent():
    N, T = Dim("batch"), Dim("time")
    model = layers.gru(NdArrayType((N, T)), NdArrayType((3,)), NdArrayType((4,)))
    return Task(model, sgd(0.1, 0.9), mse, "recurrent")


def branching():
    def forward(x):
        w = layers.parameter("weight", NdArrayType((4,)))
        large = ops.sum(w, 0) > 0
        return ops.cond(large, lambda x: x * ops.broadcast(w, x.shape), lambda x: ops.tanh(x), x)

    return Task(build(forward, [NdArrayType((Dim("batch"), 4))]), sgd(0.1), mse, "branching")


MODELS = {**TASKS, "recurrent": recurrent, "branching": branching}
SIZES = {"batch": 3, "time": 5}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("function", ["predict", "step"])
def test_plain_functions_are_traced_by_jit(name, function):
    task = MODELS[name]()
    given = arguments(task, function, SIZES)
    found = jax.jit(getattr(module(emit(task, "jax").source), function))(*given)
    for a, b in zip(found, evaluate(task.term(function), *given), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_emitted_gradients_agree_with_jax(name):
    """Compare the reverse derivative of the term with jax.grad of the emitted loss."""
    task = MODELS[name]()
    emitted = module(emit(task, "jax").source)
    given = [jnp.asarray(a) for a in arguments(task, "grads", SIZES)]
    parameters = tuple(range(len(task.parameters)))
    value, wanted = jax.value_and_grad(lambda *a: emitted.loss(*a)[0], parameters)(*given)
    found = emitted.grads(*given)
    for a, b in zip(found, (value, *wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_loops_and_branches_agree_with_jax():
    for task, primitive in ((recurrent(), "scan["), (branching(), "cond[")):
        step = module(emit(task, "jax").source).step
        assert primitive in str(jax.make_jaxpr(step)(*arguments(task, "step", SIZES)))


@pytest.mark.parametrize("index", [[0, 3], [-1, 0], [0, 2**32 + 1]])
@pytest.mark.parametrize(
    ("dtype", "filled"),
    [
        (Dtype.float32, np.nan),
        (Dtype.float64, np.nan),
        (Dtype.int32, -(2**31)),
        (Dtype.int64, -(2**63)),
        (Dtype.uint32, 2**32 - 1),
        (Dtype.bool, True),
    ],
)
def test_rows_out_of_range_give_nan(index, dtype, filled):
    """Compiled code cannot raise, so the result is NaN."""
    types = [NdArrayType((3, 2), dtype), NdArrayType((2,), Dtype.int64)]
    here = 1 - (dtype is Dtype.bool)  # not what stands for a row that is not there
    x, wrong = np.full((3, 2), here, dtype.numpy), int(np.argmax(np.abs(index)))
    [rows] = run_on(JAX, build(ops.gather, types), x, np.array(index))
    np.testing.assert_array_equal(rows[wrong], np.full(2, filled, dtype.numpy))
    np.testing.assert_array_equal(rows[1 - wrong], x[0])
    if dtype is Dtype.bool:
        return
    add = build(lambda x, i: ops.scatter_add(x, i, 3), [types[0].with_shape((2, 2)), types[1]])
    [total] = run_on(JAX, add, x[:2], np.array(index))
    np.testing.assert_array_equal(total, np.full((3, 2), filled, dtype.numpy))


@pytest.mark.parametrize("rows", [0, 1])
def test_empty_indices(rows):
    types = [NdArrayType((rows, 2)), NdArrayType((0,), Dtype.int32)]
    x, index = np.ones((rows, 2), np.float32), np.zeros(0, np.int32)
    [read] = run_on(JAX, build(ops.gather, types), x, index)
    assert read.shape == (0, 2)
    add = build(lambda x, i: ops.scatter_add(ops.gather(x, i), i, rows), types)
    [total] = run_on(JAX, add, x, index)
    np.testing.assert_array_equal(total, np.zeros((rows, 2)))


@pytest.mark.parametrize("seed", [0, -1, 2**31, 2**40 + 3, 2**63 - 1])
@pytest.mark.parametrize("counter", [0, 2**32 + 5])
def test_random_bits_are_those_of_every_target(seed, counter):
    term = build(lambda s, c: ops.random_bits((3, 5), 2**32 - 1, s, c), [KEY, KEY])
    key = np.int64(seed), np.int64(counter)
    [bits] = run_on(JAX, term, *key)
    np.testing.assert_array_equal(bits, evaluate(term, *key)[0])


def test_ties_infinities_and_nan():
    x = np.array([[np.nan, 1, np.inf], [-np.inf, 2, 2], [0.0, -0.0, np.inf]], np.float32)
    for f in (
        lambda x: ops.max(x, 1), lambda x: ops.argmax(x, 1), ops.sign, ops.round, ops.relu, ops.sigmoid,
        lambda x: ops.softmax(x, 1), lambda x: ops.maximum(x, ops.negate(x)), lambda x: x > ops.negate(x),
    ):  # fmt: skip
        term = build(f, [NdArrayType((3, 3))])
        np.testing.assert_array_equal(run_on(JAX, term, x)[0], evaluate(term, x)[0])


WIDE = "jax_enable_x64"
VECTOR = NdArrayType((3,))


def test_64_bits_are_enabled_where_needed():
    def in_a_loop(x):
        wide = lambda c: ops.cast(ops.cast(c, Dtype.float64) * 0.1, Dtype.float32)
        return ops.repeat(wide, 2, x)

    assert WIDE not in source_of(build(lambda x: x + 1, [VECTOR]))
    assert WIDE in source_of(build(lambda x: x + 1, [NdArrayType((3,), Dtype.float64)]))
    assert WIDE in source_of(build(in_a_loop, [VECTOR]))
    assert WIDE in emit(TASKS["mlp"](), "jax").source


def test_checked_functions_refuse_what_numpy_refuses():
    compiled = emit(TASKS["mlp"](), "jax").load()()
    given = arguments(TASKS["mlp"](), "predict", SIZES)
    with pytest.raises(TypeError, match="x must fit float32, but it has values outside; rescale it"):
        compiled.predict(*given[:-1], np.full((6, 4), 1e300))
    with pytest.raises(ValueError, match=r"predict: x must have shape \(4, 4\) where batch = 4"):
        compiled.predict(*given[:-1], jnp.zeros(4))
    assert compiled.predict(*given[:-1], given[-1].tolist())[0].dtype == np.float32
    assert len(compiled.predict(*map(jnp.asarray, given))) == 1
