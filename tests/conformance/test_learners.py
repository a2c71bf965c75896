"""The learners of all targets satisfy the protocol `Learner`, and agree with the reference."""

from __future__ import annotations

import numpy as np
import pytest

from catgrad import Learner, NdArrayType, Task, emit, layers, mse, optimisers
from catgrad.backend import backends, get_backend
from catgrad.errors import UnsupportedOp
from catgrad.learn import checkpoint
from catgrad.programs.ports import INITIAL, TABLES, Kind
from catgrad.programs.program import evaluate
from tests.targets import on

LEARNERS = ("numpy", "torch", "jax", "c", "cuda", "ggml", "scratch", "onnx", "javascript", "wasm", "webgpu")
on_learners = on(*LEARNERS)

ROWS, INPUT, OUTPUT = NdArrayType((4,)), NdArrayType((3,)), NdArrayType((2,))
X, Y = np.random.default_rng(0).normal(size=(2, 4, 3)).astype(np.float32)
Y = Y[:, :2].copy()


def task():
    """Build a task that has arrays in every table: running statistics and moments."""
    model = layers.dense(ROWS, INPUT, OUTPUT) >> layers.batch_norm(ROWS + OUTPUT)
    return Task(model, optimisers.adam(0.1), mse, "net")


@pytest.fixture(scope="module")
def made():
    """Return the learner of a target and its program, cached."""
    known = {}

    def of(target):
        if target not in known:
            artifact = emit(task(), target)
            known[target] = artifact.load()(), artifact.reference
        model, reference = known[target]
        return model.learner(seed=1), reference

    return of


def first(reference, seed):
    """Return the initial values of each table, by name."""
    slots = {table: [slot.name for slot in reference.tables.get(table, ())] for table in TABLES}
    values = {t: evaluate(reference.kinds[INITIAL[t]], np.int64(seed)) for t in TABLES if slots[t]}
    return {t: dict(zip(slots[t], values.get(t, ()), strict=True)) for t in TABLES}


def near(found, expected):
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-4, atol=1e-5)


@on_learners
def test_every_learner_satisfies_the_protocol(made, target):
    learner, reference = made(target)
    assert isinstance(learner, Learner)
    for table, arrays in first(reference, 1).items():
        assert list(getattr(learner, table)) == list(arrays)
        for name, expected in arrays.items():
            near(getattr(learner, table)[name], expected)


@on_learners
def test_every_learner_is_a_short_table(made, target):
    learner, reference = made(target)
    tables = {str(table): reference.tables[table] for table in reversed(TABLES) if reference.tables[table]}
    header, _, *rows = repr(learner).splitlines()
    assert header.split() == ["learner", "arrays", "elements", "bytes"]
    assert [row.split()[0] for row in rows] == list(tables)
    for row, slots in zip(rows, tables.values(), strict=True):
        counts = [len(slots), sum(s.type.size for s in slots), sum(s.type.bytes for s in slots)]
        assert row.split()[1:] == [f"{count:,}" for count in counts]
    assert learner.history is None


@on_learners
def test_steps_and_predictions_agree_with_the_reference(made, target):
    learner, reference = made(target)
    tables = first(reference, 1)
    step, predict = reference.kinds[Kind.STEP], reference.kinds[Kind.PREDICT]
    for _ in range(2):
        taken = [tables[p.role][p.name] for p in step.inputs if p.role.is_table]
        loss, *new = evaluate(step, *taken, X, Y)
        found = learner.step(X, Y)
        assert np.shape(found) == ()
        near(found, loss)
        for port, array in zip(step.outputs[1:], new, strict=True):
            tables[port.role][port.name] = array
    for table, arrays in tables.items():
        for name, expected in arrays.items():
            near(getattr(learner, table)[name], expected)
    taken = [tables[p.role][p.name] for p in predict.inputs if p.role.is_table]
    near(learner.predict(X), evaluate(predict, *taken, X)[0])


@on_learners
def test_tables_may_be_assigned(made, target):
    learner, reference = made(target)
    other = first(reference, 2)
    before = learner.predict(X)
    checkpoint.restore(learner, {str(table): arrays for table, arrays in other.items()})
    name, expected = next(iter(other["parameters"].items()))
    near(learner.parameters[name], expected)
    assert not np.allclose(np.asarray(learner.predict(X)), np.asarray(before))


@on_learners
def test_loss_is_computed_or_refused_with_the_reason(made, target):
    learner, reference = made(target)
    loss = reference.kinds.get(Kind.LOSS)
    if loss is None:
        with pytest.raises(UnsupportedOp, match="evaluated by its predictions"):
            learner.loss(X, Y)
        return
    tables = first(reference, 1)
    taken = [tables[p.role][p.name] for p in loss.inputs if p.role.is_table]
    near(learner.loss(X, Y), evaluate(loss, *taken, X, Y)[0])


@on("torch-module")
def test_a_module_is_trained_by_pytorch(target):
    assert not hasattr(emit(task(), target).load(), "learner")


def test_no_target_is_left_out():
    entries = {name: get_backend(name).entries(get_backend(name).options, task()) for name in backends()}
    steps = {name for name, kinds in entries.items() if not kinds or Kind.STEP in kinds}
    assert steps == set(LEARNERS)
