"""The learners of all targets satisfy the protocol `Learner`, and agree with the reference."""

from __future__ import annotations

import multiprocessing
import pickle
import sys
import warnings
from copy import copy, deepcopy
from threading import Thread

import numpy as np
import pytest

from catgrad import Dim, Learner, NdArrayType, Task, Term, layers, mse, optimisers
from catgrad.errors import CatgradError, ShapeError, UnsupportedOp
from catgrad.learn.fit import checkpoint
from catgrad.programs.ports import INITIAL, TABLES, Kind
from catgrad.programs.program import evaluate
from catgrad.targets import backends, get_backend
from catgrad.types import as_numpy
from tests.targets import emit, on

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
    steps = {name for name, kinds in entries.items() if Kind.STEP in kinds}
    assert steps == set(LEARNERS)


FIRST = "dense.weight"
NEW = np.full((3, 2), 0.25, np.float32)

TABLES_ASSIGNED = {
    "an array": lambda table: table.__setitem__(FIRST, NEW),
    "a method": lambda table: table.update({FIRST: NEW}),
    "pairs": lambda table: table.update([(FIRST, NEW)]),
    "a default for what is there": lambda table: (
        table.setdefault(FIRST, 0 * NEW) is not None and table.__setitem__(FIRST, NEW)
    ),
    "another dtype that fits": lambda table: table.__setitem__(FIRST, NEW.astype(np.float64)),
    "numbers of Python": lambda table: table.__setitem__(FIRST, NEW.tolist()),
}

TABLES_REFUSED = {
    "a typing error": (lambda t: t.__setitem__("dense.wieght", NEW), KeyError, "did you mean 'dense.weight'"),
    "a typing error in a method": (lambda t: t.update({"dense.wieght": NEW}), KeyError, "did you mean"),
    "a typing error in keywords": (lambda t: t.update(dense=NEW), KeyError, "must be one of dense.weight"),
    "a typing error in a default": (lambda t: t.setdefault("dense.wieght", NEW), KeyError, "did you mean"),
    "a short name that is read": (lambda t: t["weight"], KeyError, "did you mean '[a-z]*.weight'"),
    "another shape": (lambda t: t.__setitem__(FIRST, NEW.T), ValueError, r"must have shape \(3, 2\)"),
    "a scalar": (lambda t: t.__setitem__(FIRST, 0.0), ValueError, r"must have shape \(3, 2\)"),
    "another dtype": (lambda t: t.__setitem__(FIRST, NEW.astype(np.complex64)), TypeError, "must be "),
    "numbers outside": (lambda t: t.__setitem__(FIRST, np.full((3, 2), 1e300)), TypeError, "must fit"),
    "one that fits and one that does not": (
        lambda t: t.update({FIRST: NEW, "dense.bias": NEW}),
        ValueError,
        r"dense.bias must have shape \(2,\)",
    ),
    "a deleted array": (lambda t: t.__delitem__(FIRST), TypeError, "must not be deleted"),
    "a popped array": (lambda t: t.pop(FIRST), TypeError, "must not be deleted"),
    "a popped item": (lambda t: t.popitem(), TypeError, "must not be deleted"),
    "a cleared table": (lambda t: t.clear(), TypeError, "must not be deleted"),
}


def arrays(learner):
    """Return the arrays of all tables, as they are now."""
    found = checkpoint.tables(learner).items()
    return {t: {n: np.array(as_numpy(a)) for n, a in table.items()} for t, table in found}


def same(found, expected):
    for table in expected:
        for name, array in expected[table].items():
            np.testing.assert_array_equal(found[table][name], array)


@on_learners
@pytest.mark.parametrize("way", TABLES_ASSIGNED)
def test_an_array_that_fits_may_be_assigned_by(made, target, way):
    learner, _ = made(target)
    TABLES_ASSIGNED[way](learner.parameters)
    near(learner.parameters[FIRST], NEW)


@on_learners
def test_arrays_that_do_not_fit_are_refused_at_assignment(made, target):
    learner, _ = made(target)
    before = arrays(learner)
    for how, kind, sentence in TABLES_REFUSED.values():
        with pytest.raises(kind, match=sentence):
            how(learner.parameters)
        same(arrays(learner), before)


@on_learners
def test_a_table_that_is_assigned_has_all_names_and_no_other(made, target):
    learner, _ = made(target)
    before = arrays(learner)
    for table, values in before.items():
        name = next(iter(values))
        fewer = {n: a for n, a in values.items() if n != name}
        with pytest.raises(KeyError, match=f"{table}: there must be an array {name}"):
            setattr(learner, table, fewer)
        with pytest.raises(KeyError, match=f"{table}: a name must be one of"):
            setattr(learner, table, values | {"mine": NEW})
        with pytest.raises(KeyError, match=f"{table}: a name must be one of"):
            setattr(learner, table, getattr(learner, table) | {"mine": NEW})
        with pytest.raises(TypeError, match=f"{table} must be arrays by name"):
            setattr(learner, table, list(values.values()))
        same(arrays(learner), before)
    with pytest.raises(KeyError, match="parameters: there must be an array dense.weight"):
        learner.parameters = {}


@on_learners
def test_assigned_arrays_are_copied(made, target):
    learner, _ = made(target)
    mine = NEW.copy()
    learner.parameters[FIRST] = mine
    mine[:] = 7
    near(learner.parameters[FIRST], NEW)


@on_learners
def test_copies_of_a_learner_have_their_own_arrays(made, target):
    learner, _ = made(target)
    before = arrays(learner)
    for other in (copy(learner), deepcopy(learner)):
        same(arrays(other), before)
        other.step(X, Y)
        other.parameters[FIRST] = NEW
        same(arrays(learner), before)
        after = arrays(other)
        learner.step(X, Y)
        same(arrays(other), after)
        checkpoint.restore(learner, before)
    for table in (copy(learner.parameters), deepcopy(learner.parameters), learner.parameters.copy()):
        learner.step(X, Y)
        assert type(table) is dict
        same({"parameters": {n: as_numpy(a) for n, a in table.items()}}, {"parameters": before["parameters"]})
        checkpoint.restore(learner, before)


@on_learners
def test_a_learner_says_that_it_is_not_pickled(made, target):
    learner, _ = made(target)
    with pytest.raises(UnsupportedOp, match=r"checkpoint\.save"):
        pickle.dumps(learner)
    found = pickle.loads(pickle.dumps(learner.parameters))
    assert list(found) == list(learner.parameters)


@on_learners
def test_steps_of_two_threads_are_all_done(made, target):
    learner, _ = made(target)
    steps, threads = (40, 4) if target in ("numpy", "torch", "jax", "c", "onnx") else (3, 2)
    alone = copy(learner)
    for _ in range(steps * threads):
        alone.step(X, Y)

    def train():
        for _ in range(steps):
            learner.step(X, Y)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        workers = [Thread(target=train) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        sys.setswitchinterval(interval)
    same(arrays(learner), arrays(alone))


def child_steps(learner, queue):
    """Train one step in a child; send the arrays, or the error."""
    try:
        learner.step(X, Y)
        queue.put(arrays(learner))
    except CatgradError as error:
        queue.put(error.args)


@on_learners
def test_a_forked_learner_trains_or_says_that_it_does_not(made, target):
    learner, _ = made(target)
    learner.step(X, Y)
    before = arrays(learner)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=child_steps, args=(learner, queue))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of fork, in a process with threads
        child.start()
    found = queue.get(timeout=60)
    child.join(timeout=60)
    same(arrays(learner), before)
    if isinstance(found, tuple):
        assert "process" in found[0]
        assert "after the fork" in found[2]
        return
    learner.step(X, Y)
    same(found, arrays(learner))


@on(*(name for name in LEARNERS if name != "scratch"), long=("ggml",))
def test_batch_norm_is_not_trained_on_one_number_for_each_channel(target):
    """A variance needs two; PyTorch refuses one as well. Evaluation reads the running statistics."""
    batch, channels = Dim("batch"), NdArrayType((3,))
    flat = NdArrayType((batch,)) + channels
    learner = emit(Task(layers.batch_norm(flat), optimisers.sgd(0.1), mse), target).load()().learner(seed=0)
    before, one = arrays(learner), np.ones((1, 3), np.float32)
    assert learner.predict(one).shape == (1, 3)
    with pytest.raises(ValueError, match="batch must be at least 2, but it is 1"):
        learner.step(one, one)
    same(arrays(learner), before)
    learner.step(X, X)
    images = NdArrayType((batch, 3, 2, 1))
    learner = (
        emit(Task(layers.batch_norm(images), optimisers.sgd(0.1), mse), "numpy").load()().learner(seed=0)
    )
    assert np.isfinite(learner.step(*np.ones((2, 1, 3, 2, 1), np.float32)))


def test_batch_norm_of_one_number_for_each_channel_is_refused_when_built():
    with pytest.raises(ShapeError, match="a size must be at least 2, but it is 1"):
        layers.batch_norm(NdArrayType((1, 3)))
    assert isinstance(layers.batch_norm(NdArrayType((1, 3, 2, 1))), Term)
