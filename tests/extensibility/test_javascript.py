"""A package outside the tree adds a kernel language: JavaScript, in at most 500 lines with its templates.

Emitted code runs in Node.js, and must agree with the reference, as on every target.
"""

from __future__ import annotations

import importlib
import tomllib
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catgrad import Dim, Dtype, NdArrayType, Task, build, layers, mse, ops, optimisers
from catgrad.backend import GROUP, backends, get_backend
from catgrad.errors import DtypeError, ToolError
from catgrad.learn.compile import emit
from catgrad.learn.learner import Learner
from catgrad.learn.task import TERMS
from catgrad.programs.ports import INITIAL, TABLES, Kind
from catgrad.programs.program import Program, evaluate, lower
from catgrad.terms.op import OPS
from catgrad.terms.state import Persistent, Update
from catgrad.testing import Batches, Case, check_conformance, in_float64, operation_cases, run_on
from tests.conformance.test_whole_numbers import OPERATORS, PAIRS, REDUCTIONS, check, whole
from tests.differential import check_programs
from tests.models import BATCH, INPUT, OUTPUT, TASKS, arguments, mlp
from tests.programs import programs
from tests.targets import UNSHRUNK

PACKAGE = Path(__file__).parent / "javascript"
MOST_LINES = 500
DTYPES = (Dtype.float64, Dtype.float32, Dtype.int32, Dtype.uint32, Dtype.bool)


@pytest.fixture(scope="module", autouse=True)
def _installed(tmp_path_factory):
    """Put the package on the path, with the metadata that an installer would write for its entry point."""
    site = tmp_path_factory.mktemp("site")
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    metadata = site / f"{project['name'].replace('-', '_')}-0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0\n")
    entries = "".join(f"{name} = {value}\n" for name, value in project["entry-points"][GROUP].items())
    (metadata / "entry_points.txt").write_text(f"[{GROUP}]\n{entries}")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(site)
        patch.syspath_prepend(PACKAGE)
        if reason := get_backend("javascript").missing():
            pytest.skip(f"target javascript: {reason}")
        yield
    get_backend.cache_clear()


def test_the_target_is_small():
    files = [p for p in (PACKAGE / "catgrad_javascript").rglob("*") if p.suffix in (".py", ".j2")]
    assert sum(len(path.read_text().splitlines()) for path in files) <= MOST_LINES


def test_the_entry_point_is_loaded_and_every_operation_printed():
    assert "javascript" in backends()
    printed = get_backend("javascript").operations
    missing = {n for n, op in OPS.items() if op.body is None and not op.structural and n not in printed}
    assert missing == {n for n, op in OPS.items() if issubclass(op, (Persistent, Update))}


def primitive(case):
    """Tell whether a case is of an operation without a body, forward."""
    return not case.reversed and OPS[case.name.split("-")[0]].body is None


CASES = operation_cases()
PRIMITIVES = [Case(f"{c.name}-f64", in_float64(c.function), c.domain) for c in CASES if primitive(c)]
BATCHES = Batches([*CASES, *PRIMITIVES], {"javascript": 64})


@pytest.mark.parametrize("case", [*CASES, *PRIMITIVES], ids=str)
def test_operations(case):
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


@cache
def compiled(name):
    return emit(TASKS[name](), "javascript").load()()


@pytest.mark.parametrize("batch", [0, 1, 7])
@pytest.mark.parametrize("function", TERMS[1:])
@pytest.mark.parametrize("name", TASKS)
def test_models(name, function, batch):
    given = arguments(TASKS[name](), function, {"batch": batch})
    found = getattr(compiled(name), function)(*given)
    for x, y in zip(found, evaluate(TASKS[name]().term(function), *given), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5)
        assert x.dtype == y.dtype


def test_a_learner_trains_as_the_reference():
    """The model has running statistics in buffers, and moments and an int64 counter in the state."""
    model = layers.dense(BATCH, INPUT, OUTPUT) >> layers.batch_norm(BATCH + OUTPUT)
    artifact = emit(Task(model, optimisers.adam(0.1), mse, "net"), "javascript")
    learner, program = artifact.load()().learner(seed=1), artifact.reference
    assert isinstance(learner, Learner)
    tables = {t: evaluate(program.kinds[INITIAL[t]], np.int64(1)) for t in TABLES if program.tables.get(t)}
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(7, 4)).astype(np.float32), rng.normal(size=(7, 3)).astype(np.float32)
    for _ in range(3):
        step = program.kinds[Kind.STEP]
        loss, *new = evaluate(step, *(array for table in step.tables for array in tables[table]), x, y)
        np.testing.assert_allclose(learner.step(x, y), loss, rtol=1e-5)
        for role in tables:
            tables[role] = [a for port, a in zip(step.outputs[1:], new, strict=True) if port.role is role]
            for found, wanted in zip(getattr(learner, role).values(), tables[role], strict=True):
                np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_unsupported_operations_are_refused():
    backend = get_backend("javascript")
    with pytest.raises(DtypeError, match="at least 32 bits"):
        emit(mlp(dtype=Dtype.float16), "javascript")
    numbers = NdArrayType((2,), Dtype.int64)
    with pytest.raises(TypeError, match="must have 53 bits"):
        run_on(backend, build(lambda n: n + 1, [numbers]), np.array([0, 2**60]))
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
    loading = importlib.import_module("catgrad_javascript.loading")
    with pytest.raises(ToolError, match="Node.js says: SyntaxError"):
        loading.ask("load", module=-1, source="export function (")


def test_emission_is_deterministic():
    assert emit(mlp(), "javascript").source == emit(mlp(), "javascript").source
