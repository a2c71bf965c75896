"""Emitted C called from Python: functions and learner agree with those of numpy, in place."""

from __future__ import annotations

import copy
import threading

import numpy as np
import pytest

from catgrad import Dim, Dtype, NdArrayType, Task, build, fit, layers, mse, obj, ops, sgd
from catgrad.errors import ToolError
from catgrad.learn.fit.checkpoint import load, save
from catgrad.programs.program import Program, lower
from catgrad.targets import get_backend
from catgrad.testing import run_on
from tests.targets import emit
from tests.unit.c.build import NEEDS_C
from tests.unit.line import (
    P,
    X,
    Y,
    assert_learners_agree,
    assert_same,
    assert_same_errors,
    emitted,
    learners_of,
    line,
)

pytestmark = NEEDS_C
RNG = np.random.default_rng(1)


@pytest.fixture(scope="module")
def models():
    return emitted().load(), emit(line()).load()


@pytest.fixture
def learners(models):
    return learners_of(models)


S = [RNG.normal(size=(4, 3)).astype(np.float32), np.ones(3, np.float32)]
M = [np.array(3)]


@pytest.mark.parametrize(
    ("name", "arrays"),
    [
        ("predict", [*P, X]),
        ("loss", [*P, X, Y]),
        ("rev", [*P, X, Y]),
        ("rev_p", [*P, X, Y]),
        ("grads", [*M, *P, X, Y]),
        ("update", [*S, *P, *P]),
        ("step", [*S, *M, *P, X, Y]),
        ("init_buffers", []),
        ("init_state", []),
    ],
)
def test_functions(models, name, arrays):
    before = copy.deepcopy(arrays)
    found = getattr(models[0](), name)(*arrays)
    assert_same(found, getattr(models[1](), name)(*arrays))
    assert all(np.array_equal(a, b) for a, b in zip(arrays, before, strict=True))
    # Arrays that do not lie as C has them, lists, and other dtypes.
    others = [np.array(a, order="F") for a in arrays[:-1]] + [
        a.astype(np.float64).tolist() for a in arrays[-1:]
    ]
    assert_same(getattr(models[0](), name)(*others), found)


def test_misaligned_arrays(models):
    bytes = np.zeros(X.nbytes + 1, np.uint8)
    x = bytes[1:].view(np.float32).reshape(X.shape)
    x[:] = X
    assert_same(models[0]().predict(*P, X), models[0]().predict(*P, x))


def test_a_learner_agrees_with_that_of_numpy(learners):
    ours, theirs = learners
    assert_learners_agree(ours, theirs, steps=5)
    for table in ("parameters", "buffers", "state"):
        assert list(getattr(ours, table)) == list(getattr(theirs, table))
        assert_same(getattr(ours, table).values(), getattr(theirs, table).values())


def test_steps_update_arrays_in_place(learners):
    learner = learners[0]
    held = learner.parameters["dense.weight"]
    before = held.copy()
    learner.step(X, Y)
    assert learner.parameters["dense.weight"] is held
    assert not np.array_equal(held, before)
    held[:] = 0
    learner.parameters["dense.bias"] = [1, 2, 3]
    assert np.array_equal(learner.predict(X), np.tile(np.float32([1, 2, 3]), (6, 1)))


def test_a_copy_of_a_table_is_independent(learners):
    learner = learners[0]
    kept = copy.deepcopy(learner.parameters)
    learner.step(X, Y)
    assert isinstance(kept, dict)
    other = copy.deepcopy(learner)
    assert_same([other.step(X, Y)], [learner.step(X, Y)])
    assert_same(other.state.values(), learner.state.values())
    assert not np.array_equal(kept["dense.weight"], learner.parameters["dense.weight"])


def test_tables_that_do_not_fit_change_nothing(learners):
    learner = learners[0]
    before = copy.deepcopy(learner.parameters)
    with pytest.raises(ValueError, match=r"parameters: dense.bias must have shape \(3,\), but it is \(4,\)"):
        learner.parameters = {"dense.weight": np.zeros((4, 3)), "dense.bias": np.zeros(4)}
    with pytest.raises(KeyError, match="dense.bias"):
        learner.parameters = {"dense.weight": np.zeros((4, 3))}
    with pytest.raises(KeyError, match="one of dense.weight, dense.bias, but it is 'more'"):
        learner.parameters["more"] = np.zeros(3)
    with pytest.raises(TypeError, match="must not be deleted"):
        del learner.parameters["dense.bias"]
    assert all(np.array_equal(before[name], array) for name, array in learner.parameters.items())


@pytest.mark.parametrize(
    "arrays",
    [
        (X[0], Y),
        (X, Y[:3]),
        (X, Y[0]),
        (X,),
        (X, Y, Y),
        (np.full((6, 4), 1e300), Y),
        (X.astype(complex), Y),
        (np.full((6, 4), "a"), Y),
    ],
)
def test_wrong_arguments_have_the_errors_of_numpy(learners, arrays):
    assert_same_errors(learners, arrays)


def test_seeds_are_checked(models):
    with pytest.raises(TypeError, match="init: seed must be int64"):
        models[0]().init(0.5)
    with pytest.raises(TypeError, match="seed must be int64"):
        models[0]().learner("a")
    assert np.array_equal(models[0]().init(7)[0], models[0]().learner(7).parameters["dense.weight"])


def test_indices_out_of_range_are_refused():
    batch = NdArrayType((Dim("batch"),), Dtype.int32)
    model = layers.embedding(batch, 5, NdArrayType((3,)))
    learner = emitted(Task(model, sgd(0.1), mse, "rows")).load()().learner()
    before, y = copy.deepcopy(learner.parameters), np.zeros((2, 3))
    for wrong in (-1, 5):
        with pytest.raises(IndexError, match="step: an index must lie inside its array"):
            learner.step(np.int32([0, wrong]), y)
    assert all(np.array_equal(before[name], array) for name, array in learner.parameters.items())
    learner.step(np.int32([0, 4]), y)


def test_computed_indices_are_checked():
    types = [NdArrayType((3,)), NdArrayType((2,), Dtype.bool), NdArrayType((2,), Dtype.int64)]
    term = build(lambda x, c, i: ops.gather(x, ops.select(c, i, ops.zeros_like(i))), types)
    x, condition = np.float32([1, 2, 3]), np.array([True, False])
    [found] = run_on(get_backend("c"), term, x, condition, np.array([2, 7]))
    assert found.tolist() == [3, 1]
    for wrong in (-1, 3):
        with pytest.raises(IndexError):
            run_on(get_backend("c"), term, x, condition, np.array([wrong, 0]))


def test_read_only_arrays(models, learners):
    x = X.copy()
    x.flags.writeable = False
    assert_same(models[0]().predict(*P, x), models[0]().predict(*P, X))
    assert_same([learners[0].step(x, Y)], [learners[1].step(X, Y)])


def test_empty_batches(learners):
    assert learners[0].predict(X[:0]).shape == (0, 3)


def test_threads_have_separate_workspaces(models):
    model, found = models[0](), {}
    xs = [RNG.normal(size=(500, 4)).astype(np.float32) for _ in range(4)]

    def work(i):
        found[i] = [model.loss(*P, xs[i], xs[i][:, :3])[0] for _ in range(200)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, x in enumerate(xs):
        assert set(map(float, found[i])) == {float(model.loss(*P, x, x[:, :3])[0])}


def test_checkpoints_and_fit(learners, tmp_path):
    ours, theirs = learners
    history = [
        fit(learner, (X, Y), epochs=4, batch_size=4, validation=(X, Y), patience=2, progress=False,
            checkpoint=tmp_path / f"{i}.safetensors")
        for i, learner in enumerate(learners)
    ]  # fmt: skip
    np.testing.assert_allclose(history[0].losses, history[1].losses, rtol=1e-4)
    save(ours, tmp_path / "a.safetensors")
    ours.step(X, Y)
    load(theirs, tmp_path / "a.safetensors")
    load(ours, tmp_path / "a.safetensors")
    assert_same(ours.parameters.values(), theirs.parameters.values())
    assert_same(ours.state.values(), theirs.state.values())


def test_a_program_without_tables():
    function = lower(build(lambda x: x + 1, [NdArrayType((3,))]), "f")
    compiled = get_backend("c").emit(Program("case", (function,))).load()()
    [found] = compiled.f(np.float32([1, 2, 3]))
    assert found.tolist() == [2, 3, 4]
    assert "train.c" not in get_backend("c").emit(Program("case", (function,))).files


def test_a_model_without_parameters():
    task = Task(layers.relu(obj(NdArrayType((Dim("batch"), 3)))), sgd(0.1, momentum=0.9), mse, "none")
    ours, theirs = (emit(task, target).load()() for target in ("c", "numpy"))
    x, y = X[:, :3].copy(), Y
    assert_same(ours.grads(x, y), theirs.grads(x, y))
    assert_same([ours.learner().step(x, y)], [theirs.learner().step(x, y)])
    assert ours.init(0) == []
    assert_same(ours.step(x, y), ours.loss(x, y))


@pytest.mark.parametrize("name", ["int", "steps"])
def test_sizes_may_have_any_name(name):
    y, losses = Y[:, :3], []
    for target in ("c", "numpy"):
        learner = emit(line(Dim(name)), target).load()().learner()
        learner.parameters["dense.weight"] = P[0]
        losses.append([learner.step(X, y), learner.step(X, y)])
        if target == "c":
            learner.step_many(X[None], y[None])
    assert_same(*losses)


def test_loaded_libraries_stay_alive(tmp_path, monkeypatch):
    monkeypatch.setenv("CATGRAD_CACHE", str(tmp_path))
    emitted().load()
    [library] = tmp_path.glob("c/*/line.*.so")
    made = library.stat().st_mtime_ns
    emitted().load()
    assert library.stat().st_mtime_ns == made
    monkeypatch.setenv("CC", "gcc -O1")
    emitted().load()
    assert len(list(tmp_path.glob("c/*/line.*.so"))) == 2


def test_missing_and_failing_compilers(tmp_path, monkeypatch):
    monkeypatch.setenv("CATGRAD_CACHE", str(tmp_path))
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(ToolError, match="there is no C compiler"):
        emitted().load()
    monkeypatch.setenv("CC", "gcc -include none.h")
    with pytest.raises(ToolError, match=r"gcc must compile the emitted source, but it says: .*none\.h"):
        emitted().load()
    assert not list(tmp_path.glob("*/*.so"))
