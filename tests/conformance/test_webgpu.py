"""Emitted WebGPU in Node.js, on a GPU or a software adapter: whole steps, its limits, and its errors."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from catgrad.backends.webgpu.adapter import command, environment

from catgrad import Dim, Dtype, NdArrayType, Task, build, layers, mse, ops, optimisers, sgd
from catgrad.errors import ToolError
from catgrad.targets import get_backend
from catgrad.testing import run_on
from examples import digits, iris
from tests.conformance.test_whole_steps import gpt
from tests.models import mlp
from tests.targets import cannot, emit

pytestmark = pytest.mark.skipif(bool(cannot("webgpu")), reason=str(cannot("webgpu")))


def small_gpt():
    twins = gpt(Dtype.float32)
    return Task(twins.model, optimisers.adamw(0.02, 0.8, 0.95, 1e-3), twins.loss[0], "gpt", twins.labels)


def flowers(rng):
    return rng.normal(size=(6, 4)).astype(np.float32), np.eye(3, dtype=np.float32)[rng.integers(0, 3, 6)]


def images(rng):
    return rng.normal(size=(6, 1, 8, 8)).astype(np.float32), rng.integers(0, 10, 6)


def words(rng):
    return rng.integers(0, 7, (6, 5)), rng.integers(0, 7, (6, 5))


@pytest.mark.parametrize(
    ("task", "batch"),
    [
        pytest.param(iris.hidden, flowers, id="iris"),
        pytest.param(digits.cnn, images, id="cnn", marks=pytest.mark.long),
        pytest.param(small_gpt, words, id="gpt", marks=pytest.mark.long),
    ],
)
def test_steps_are_those_of_numpy(task, batch):
    """Both start from the same seed."""
    model, other = (emit(task(), target).load()().learner(seed=3) for target in ("webgpu", "numpy"))
    rng = np.random.default_rng(0)
    for name, array in model.parameters.items():
        np.testing.assert_allclose(array, other.parameters[name], rtol=1e-5, atol=1e-6, err_msg=name)
    for _ in range(3):
        x, y = batch(rng)
        np.testing.assert_allclose(model.step(x, y), other.step(x, y), rtol=1e-5, atol=1e-6)
    for name, array in model.parameters.items():
        np.testing.assert_allclose(array, other.parameters[name], rtol=1e-4, atol=1e-5, err_msg=name)


def test_steps_have_the_same_bits_in_each_run():
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(700, n)).astype(np.float32) for n in (4, 3))
    model = emit(mlp(), "webgpu").load()()
    first, second = model.learner(seed=1), model.learner(seed=1)
    assert [first.step(x, y) for _ in range(3)] == [second.step(x, y) for _ in range(3)]


def test_numbers_that_are_not_finite():
    """WGSL lets compilers assume that there are none; this is about the one that runs here."""
    x = np.float32([np.nan, np.inf, -np.inf, 1.0])
    functions = [ops.relu, ops.exp, ops.tanh, lambda x: ops.maximum(x, ops.square(x))]
    term = build(lambda x: [f(x) for f in functions], [NdArrayType((4,))])
    wanted = run_on(get_backend("numpy"), term, x)
    for found, expected in zip(run_on(get_backend("webgpu"), term, x), wanted, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_sine_and_cosine_of_any_number():
    """Reduced exactly: also by the float32 that is nearest to a multiple of a quarter turn."""
    rng = np.random.default_rng(0)
    x = np.float32(rng.choice([-1, 1], 4000) * 10.0 ** rng.uniform(-3, 38, 4000))
    x = np.float32([*x, 1e5, 1e30, 16367173.0 * 2.0**72, *(np.arange(-40, 41) * np.pi / 4)])
    term = build(lambda x: [ops.sin(x), ops.cos(x)], [NdArrayType(x.shape)])
    for found, exact in zip(run_on(get_backend("webgpu"), term, x), (np.sin, np.cos), strict=True):
        np.testing.assert_allclose(found, exact(x.astype(np.float64)), rtol=5e-7, atol=0)


@pytest.mark.long
def test_grids_have_more_blocks_than_one_axis():
    """A grid of 66,000 blocks has two axes, for WebGPU allows 65,535 along one."""
    x = np.arange(66_000 * 33, dtype=np.float32).reshape(66_000, 33) % 7
    term = build(lambda x: ops.max(x, 1), [NdArrayType((Dim("n"), 33))])
    [found] = run_on(get_backend("webgpu"), term, x)
    np.testing.assert_array_equal(found, x.max(1))


def test_larger_whole_numbers_are_refused():
    numbers = NdArrayType((2,), Dtype.int64)
    with pytest.raises(TypeError, match="must have 32 bits"):
        run_on(get_backend("webgpu"), build(lambda n: n + 1, [numbers]), np.array([0, 2**40]))


def test_indices_beyond_32_bits_are_refused():
    """No array is large, but the sum of 0, 1, …, n² - 1 counts to 2.5 billion."""
    n = Dim("n")
    numbers = build(lambda x: ops.sum(x) + ops.sum(ops.cast(ops.iota(n * n), x.dtype)), [NdArrayType((n,))])
    with pytest.raises(ToolError, match=r"indices must be less than 2\^30"):
        run_on(get_backend("webgpu"), numbers, np.ones(50_000, np.float32))


def test_remainders_are_exact():
    """Whatever the quotient is: 3e38 / 1e-30 has 68 digits."""
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=500) * 10.0 ** rng.uniform(-35, 37, 500) for _ in range(2))
    x, y = (
        np.float32([*x, np.inf, 3e38, 5, -6, 1, np.nan, 0]),
        np.float32([*y, 2, -1e-30, 0, 3, np.inf, 1, 2]),
    )
    [found] = run_on(get_backend("webgpu"), build(ops.fmod, [NdArrayType((507,))] * 2), x, y)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(found, np.fmod(x, y))


def test_kernels_of_a_part_that_is_not_chosen_do_nothing():
    """A branch lies within a part of another, within a loop."""

    def rest(x, table, i):
        return x + ops.broadcast(ops.sum(ops.gather(table, i)), x.shape)

    def inner(x, table, i):
        return ops.cond(ops.sum(x) > 8, lambda x, t, i: x - 5, rest, x, table, i)

    def step(x, table, i):
        return ops.cond(ops.sum(x) > 30, lambda x, t, i: x / 4, inner, x, table, i)

    types = [NdArrayType((3,)), NdArrayType((4, 2)), NdArrayType((2,), Dtype.int64)]
    term = build(lambda x, table, i: ops.repeat(lambda x: step(x, table, i), 5, x), types)
    table = np.float32([[1, 2], [3, 4], [5, 6], [7, 8]])
    for x, i in [([1, 2, 3], [0, 3]), ([40, 50, 1], [2, 2]), ([4, 4, 1], [1, 1])]:
        given = np.float32(x), table, np.array(i)
        wanted = run_on(get_backend("numpy"), term, *given)
        np.testing.assert_array_equal(run_on(get_backend("webgpu"), term, *given), wanted)


@pytest.mark.parametrize("is_first", [True, False])
def test_indices_are_checked_in_the_chosen_part_alone(is_first):
    types = [NdArrayType((), Dtype.bool), NdArrayType((4, 2)), NdArrayType((4,), Dtype.int64)]
    term = build(lambda c, x, i: ops.cond(c, lambda x, i: ops.gather(x, i), lambda x, i: x * 2, x, i), types)
    given = np.bool_(is_first), np.ones((4, 2), np.float32), np.array([0, 9, 1, 2])
    if is_first:
        with pytest.raises(IndexError, match="an index must lie inside"):
            run_on(get_backend("webgpu"), term, *given)
    else:
        [found] = run_on(get_backend("webgpu"), term, *given)
        np.testing.assert_array_equal(found, 2 * given[1])


def test_an_index_outside_changes_no_table():
    """Kernels after the check do nothing, and the next call is right again."""
    tokens = NdArrayType((Dim("batch"),), Dtype.int64)
    task = Task(layers.embedding(tokens, 7, NdArrayType((8,)), name="tokens"), sgd(0.1), mse, "tokens")
    learner = emit(task, "webgpu").load()().learner(seed=3)
    x, y = np.array([1, 0, 6]), np.ones((3, 8), np.float32)
    before = {name: array.copy() for name, array in learner.parameters.items()}
    with pytest.raises(IndexError, match="an index must lie inside"):
        learner.step(x + 7, y)
    for name, array in learner.parameters.items():
        np.testing.assert_array_equal(array, before[name])
    assert np.isfinite(learner.step(x, y))


def test_errors_of_the_device_are_reported():
    artifact = emit(mlp(), "webgpu")
    wrong = artifact.source.replace("let block =", "let let =")
    files = {**artifact.files, "mlp.mjs": wrong}
    with pytest.raises(ToolError, match="Error while parsing WGSL"):
        replace(artifact, files=files).load()().learner(seed=0)


SAVED = """
import { createModel } from "./mlp.mjs";

const model = await createModel({ seed: 2 });
const x = Float32Array.from({ length: 20 }, (_, i) => Math.sin(i)), y = new Float32Array(15);
const calls = [model.step(5, x, y), model.step(5, x, y), model.download()]; // one after the other
const given = x.slice();
x.fill(0); // which is too late to change them
const losses = (await Promise.all(calls)).slice(0, 2);
const arrays = Object.entries(model.parameters).map(([name, array]) => [name, [...array]]);
const again = await createModel({ weights: await model.save() });
const names = Object.keys(model.parameters);
const equal = (a, b) => a.every((each, i) => each === b[i]);
const same = names.every((name) => equal(model.parameters[name], again.parameters[name]));
const next = [await model.loss(5, given, y), await again.loss(5, given, y)];
const refused = await model.step(4, x, y).catch((error) => `${error}`);
console.log(JSON.stringify({ losses, parameters: Object.fromEntries(arrays), same, next, refused }));
process.exit(0); // Dawn keeps Node.js alive
"""


def test_files_calls_and_checks_in_node(tmp_path):
    emit(mlp(), "webgpu").write(tmp_path)
    (tmp_path / "run.mjs").write_text(SAVED)
    variables = [f"{name}={value}" for name, value in environment().items()]
    done = subprocess.run(
        ["env", *variables, *command("run.mjs")], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    learner = emit(mlp(), "numpy").load()().learner(seed=2)
    x, y = np.sin(np.arange(20, dtype=np.float32)).reshape(5, 4), np.zeros((5, 3), np.float32)
    np.testing.assert_allclose(said["losses"], [learner.step(x, y) for _ in range(2)], rtol=1e-5)
    for name, array in learner.parameters.items():
        np.testing.assert_allclose(said["parameters"][name], array.ravel(), rtol=1e-5, atol=1e-6)
    assert said["same"]
    assert said["next"][0] == said["next"][1]
    assert "x must have 16 elements, but it has 20" in said["refused"]
