"""Emitted JavaScript in Node.js: numbers of every dtype, names, files of weights, and its errors."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from catgrad.backends.javascript.session import ask
from catgrad.backends.javascript.session import node as engine
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catgrad import Dim, Dtype, NdArrayType, Task, build, layers, mse, ops, optimisers
from catgrad.errors import DtypeError, ToolError
from catgrad.learn.fit import checkpoint
from catgrad.programs.program import Program, evaluate, lower
from catgrad.targets import get_backend
from catgrad.terms.op import OPS
from catgrad.testing import Batches, Case, check_conformance, in_float64, operation_cases, run_on
from catgrad.tools import run
from tests.conformance.test_whole_numbers import OPERATORS, PAIRS, REDUCTIONS, check, whole
from tests.differential import check_programs
from tests.models import BATCH, INPUT, OUTPUT, mlp
from tests.programs import programs
from tests.targets import UNSHRUNK, cannot, emit, on

DTYPES = (Dtype.float64, Dtype.float32, Dtype.int32, Dtype.uint32, Dtype.bool)

pytestmark = pytest.mark.skipif(bool(cannot("javascript")), reason=str(cannot("javascript")))


def primitive(case):
    """Tell whether a case is of an operation without a body, forward."""
    return not case.reversed and OPS[case.name.split("-")[0]].body is None


CASES = operation_cases()
PRIMITIVES = [Case(f"{c.name}-f64", in_float64(c.function), c.domain) for c in CASES if primitive(c)]
BATCHES = Batches(PRIMITIVES, {"javascript": 64})


@pytest.mark.parametrize("case", PRIMITIVES, ids=str)
def test_operations_in_float64(case):
    check_conformance("javascript", case, batches=BATCHES)


@given(data=st.data(), dtype=st.sampled_from([Dtype.int32, Dtype.uint32]))
@settings(max_examples=10)
def test_integers_wrap(data, dtype):
    x, y = data.draw(whole(dtype)), data.draw(whole(dtype))
    elementwise, places = [*OPERATORS, *PAIRS], [(f, axis) for f in REDUCTIONS for axis in (0, 1)]
    with np.errstate(all="ignore"):
        wanted = [f(x, y) for f in OPERATORS] + [f(x, y) for f in PAIRS.values()] + [-x, ~x]
        wanted += [REDUCTIONS[f](x, axis) for f, axis in places]

    def function(x, y):
        return [*(f(x, y) for f in elementwise), -x, ~x, *(f(x, axis) for f, axis in places)]

    check("javascript", function, wanted, x, y)


AWKWARD = [
    0,
    1,
    -1,
    0.5,
    -2.5,
    1e-45,
    2**24 + 1,
    2**31 - 1,
    -(2**31),
    2**32 - 1,
    2**53,
    1e39,
    np.inf,
    -np.inf,
    np.nan,
]


@pytest.mark.parametrize("before", DTYPES)
def test_casts(before):
    """Each number is cast to a dtype, and from there to every other."""
    limits = None if before.is_floating or before is Dtype.bool else np.iinfo(before.numpy)
    with np.errstate(over="ignore"):
        within = [n for n in AWKWARD if limits is None or (n == n // 1 and limits.min <= n <= limits.max)]
        x = np.array(within).astype(before.numpy)
    term = build(lambda x: [ops.cast(x, after) for after in DTYPES], [NdArrayType(x.shape, before)])
    for found, wanted in zip(run_on(get_backend("javascript"), term, x), evaluate(term, x), strict=True):
        np.testing.assert_array_equal(found, wanted)
        assert found.dtype == wanted.dtype


def test_the_first_of_equal_elements_is_the_greatest():
    """`Math.max(-0, 0)` is 0, which is no other number than -0."""
    rows = [[-0.0, 0.0, -1.0], [0.0, -0.0, 0.0], [-1.0, np.nan, np.nan], [-1.0, np.inf, np.inf]]
    term = build(ops.argmax, [NdArrayType((4, 3), Dtype.float64)])
    [found] = run_on(get_backend("javascript"), term, np.array(rows))
    assert found.tolist() == [0, 0, 1, 1]


def test_long_sums_are_accurate():
    """A float32 accumulator of 100,000 terms of 1/3 would have an error of hundredths."""
    x = np.full(210_000, 0.34668, np.float32)
    [found] = run_on(get_backend("javascript"), build(ops.mean, [NdArrayType((Dim("n"),))]), x)
    np.testing.assert_allclose(found, x[0], rtol=2e-6)


FEW = settings(max_examples=4, deadline=None, phases=UNSHRUNK, suppress_health_check=list(HealthCheck))


@FEW
@given(drawn=st.lists(programs(dtypes=(*DTYPES, Dtype.int64)), min_size=16, max_size=16))
def test_random_programs(drawn):
    check_programs("javascript", drawn)


def test_unsupported_operations_are_refused():
    backend = get_backend("javascript")
    with pytest.raises(DtypeError, match="at least 32 bits"):
        emit(mlp(dtype=Dtype.float16), "javascript")
    numbers = NdArrayType((2,), Dtype.int64)
    for number in (2**60, 2**53 + 1, -(2**53) - 1):
        with pytest.raises(TypeError, match="must have 53 bits"):
            run_on(backend, build(lambda n: n + 1, [numbers]), np.array([0, number]))
    gather = build(lambda x, n: ops.take(x, n, 0), [NdArrayType((3,)), numbers])
    with pytest.raises(IndexError, match="an index must lie inside"):
        run_on(backend, gather, np.zeros(3, np.float32), np.array([0, 3]))


@pytest.mark.parametrize("size", ["i", "for", "Math", "ensure", "x"])
def test_words_of_javascript_may_be_names(size):
    def model(x):
        p, q = (layers.parameter(name, NdArrayType((2,))) for name in ("class", "new.0.erf"))
        return x * ops.broadcast(ops.erf(p) + q, x.shape)

    task = Task(build(model, [NdArrayType((Dim(size), 2))]), optimisers.sgd(0.1), mse, "let")
    p, q, x = np.float32([0.5, 1]), np.float32([2, 3]), np.float32([[1, 2], [3, 4], [5, 6]])
    [found] = emit(task, "javascript").load()().predict(p, q, x)
    np.testing.assert_allclose(found, evaluate(task.term("predict"), p, q, x)[0], rtol=1e-6)


def test_a_function_may_be_named_by_a_word_of_javascript():
    term = build(lambda x: x + 1, [NdArrayType((2,))])
    artifact = get_backend("javascript").emit(
        Program("words", (lower(term, "delete", doc="Ends */ never."),))
    )
    [found] = artifact.load()().delete(np.float32([1, 2]))
    assert found.tolist() == [2, 3]


def test_errors_of_node_are_reported():
    with pytest.raises(ToolError, match="Node.js says: SyntaxError"):
        ask("load", engine(), module=-1, source="export function (")


def test_emission_is_deterministic():
    assert emit(mlp(), "javascript").source == emit(mlp(), "javascript").source


def node(folder, script, *arguments):
    """Run a script beside emitted files; returns what it prints, as JSON."""
    (folder / "run.mjs").write_text(script)
    done = subprocess.run(
        ["node", "run.mjs", *arguments], cwd=folder, capture_output=True, text=True, timeout=60, check=True
    )
    return json.loads(done.stdout)


def trained():
    """Build a task with a table of each kind, and an int64 counter."""
    model = layers.dense(BATCH, INPUT, OUTPUT) >> layers.batch_norm(BATCH + OUTPUT)
    return Task(model, optimisers.adam(0.1), mse, "net")


RESUMED = """
import { readFileSync, writeFileSync } from "node:fs";
import { createModel } from "./net.mjs";

const x = Float32Array.from({ length: 20 }, (_, i) => Math.sin(i));
const y = Float32Array.from({ length: 15 }, (_, i) => Math.cos(i));
const model = await createModel({ weights: readFileSync("in.safetensors") });
const losses = [model.step(5, x, y), model.step(5, x, y)];
writeFileSync("out.safetensors", model.save());
const again = await createModel({ seed: 9, weights: model.save() });
const refused = [];
const wrong = [["step", 4, x, y], ["step", -1, x, y], ["step", 5, [...x], y], ["load", x.slice(0, 1)]];
for (const [call, ...given] of wrong) {
    try { model[call](...given); } catch (error) { refused.push(`${error}`); }
}
console.log(JSON.stringify({ losses, next: [model.step(5, x, y), again.step(5, x, y)], refused }));
"""


@on("javascript", "wasm")
def test_training_resumes_from_a_file_of_another_target(target, tmp_path):
    """Node.js reads a file that Python wrote, trains, and writes one that Python reads."""
    learner = emit(trained(), "numpy").load()().learner(seed=3)
    checkpoint.save(learner, tmp_path / "in.safetensors")
    write(emit(trained(), target), tmp_path)
    said = node(tmp_path, RESUMED)
    x = np.sin(np.arange(20)).astype(np.float32).reshape(5, 4)
    y = np.cos(np.arange(15)).astype(np.float32).reshape(5, 3)
    np.testing.assert_allclose(said["losses"], [learner.step(x, y), learner.step(x, y)], rtol=1e-5)
    assert said["next"][0] == said["next"][1]
    other = emit(trained(), "numpy").load()().learner(seed=4)
    checkpoint.load(other, tmp_path / "out.safetensors")
    assert int(other.state["step"]) == 2
    for name, array in learner.parameters.items():
        np.testing.assert_allclose(other.parameters[name], array, rtol=1e-4, atol=1e-5)
    assert [text.split(":")[0] for text in said["refused"]] == [
        "RangeError",
        "RangeError",
        "TypeError",
        "RangeError",
    ]
    assert "x must have 16 elements, but it has 20" in said["refused"][0]


def write(artifact, folder):
    """Write the files that run in Node.js, and build the library that they need."""
    artifact.write(folder)
    if artifact.backend.name == "wasm":
        done = run(["make", f"CC={sys.executable} -m ziglang cc"], 300, cwd=folder)
        assert done.returncode == 0, done.stderr


@on("javascript", "wasm")
def test_wide_calls_let_the_memory_grow(target, tmp_path):
    """Arrays of tables are the same after a call of any size, and views of them are up to date."""
    write(emit(trained(), target), tmp_path)
    said = node(tmp_path, GROWN)
    assert said["before"] == said["after"]
    assert said["same"]


GROWN = """
import { createModel } from "./net.mjs";

const model = await createModel({ seed: 2 });
const copy = () => Object.values(model.parameters).map((array) => [...array]);
const before = copy(), small = model.predict(1, Float32Array.of(1, 2, 3, 4));
const n = 200000, wide = model.predict(n, Float32Array.from({ length: 4 * n }, (_, i) => 1 + (i % 4)));
const same = small.every((each, i) => each === wide[3 * (n - 1) + i]);
console.log(JSON.stringify({ before, after: copy(), same }));
"""


def test_products_of_matrices_are_sums_in_float64():
    """Sizes are multiples of no tile, both factors may be transposed, and the error is one rounding."""
    rng = np.random.default_rng(0)
    for m, n, k in [(1, 1, 300), (33, 70, 129), (64, 64, 64)]:
        x, y = rng.normal(size=(m, k)).astype(np.float32), rng.normal(size=(k, n)).astype(np.float32)
        exact = (x.astype(np.float64) @ y.astype(np.float64)).astype(np.float32)
        types = [NdArrayType(a.shape) for a in (x, y.T)]
        term = build(lambda x, y: x @ ops.transpose(y), types)
        [found] = run_on(get_backend("javascript"), term, x, np.ascontiguousarray(y.T))
        np.testing.assert_array_max_ulp(found, exact, maxulp=1)
