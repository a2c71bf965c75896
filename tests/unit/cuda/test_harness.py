"""Emitted CUDA called from Python in the simulator: functions and learner, and arrays of other libraries."""

from __future__ import annotations

import copy
import gc
import threading
from dataclasses import replace

import numpy as np
import pytest
from catgrad.backends.cuda import dlpack
from catgrad.backends.cuda.device import DeviceArray
from catgrad.backends.cuda.tools import SIMULATE

from catgrad import Dim, Dtype, NdArrayType, Task, build, compile_model, fit, layers, mse, ops, sgd
from catgrad.errors import ToolError
from catgrad.programs.program import Program, lower
from catgrad.targets import get_backend
from tests.targets import emit
from tests.unit.cuda.build import NEEDS_CXX
from tests.unit.line import P, X, Y, assert_learners_agree, assert_same, assert_same_errors, learners_of, line

pytestmark = NEEDS_CXX
RNG = np.random.default_rng(1)


class Tensor:
    """An array of another library, which shares it by DLPack alone."""

    def __init__(self, array):
        self.array, self.exports = array, 0

    def __dlpack__(self, **options):
        self.exports += 1
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@pytest.fixture(scope="module")
def models():
    task = replace(line(), runtime_learning_rate=True)
    return emit(task, "cuda").load(simulate=True), emit(task).load()


@pytest.fixture
def learners(models):
    return learners_of(models)


def test_a_learner_agrees_with_that_of_numpy(learners):
    ours, theirs = learners
    assert_learners_agree(ours, theirs, steps=3)
    other = copy.deepcopy(ours)
    assert_same([other.step(X, Y)], [ours.step(X, Y)])


def test_functions_do_not_change_their_arguments(models):
    tables = [*models[0]().init_state(), *models[0]().init_buffers(), *P]
    before = copy.deepcopy(tables)
    loss, *after = models[0]().step(*tables, X, Y)
    assert_same([loss], models[1]().loss(*P, X, Y))
    assert all(np.array_equal(a, b) for a, b in zip(tables, before, strict=True))
    assert len(after) == len(tables) and not np.array_equal(after[-1], tables[-1])


@pytest.mark.parametrize(
    "arrays", [(X[0], Y), (X, Y[:3]), (X,), (X, Y, Y), (np.full((6, 4), 1e300), Y), (X.astype(complex), Y)]
)
def test_wrong_arguments_have_the_errors_of_numpy(learners, arrays):
    assert_same_errors(learners, arrays)


def test_arrays_of_other_libraries_are_neither_copied_nor_changed(learners, monkeypatch):
    ours, theirs = learners
    monkeypatch.setattr(DeviceArray, "put", None)  # there is nothing to copy
    x, y = Tensor(X), Tensor(Y)
    results = [ours.predict(x), ours.loss(x, y)]
    assert all(isinstance(result, DeviceArray) for result in results)
    assert_same(map(np.from_dlpack, results), [theirs.predict(X), theirs.loss(X, Y)])
    assert (x.exports, y.exports) == (2, 1)
    loss, gradients = ours.grads(x, y)
    expected, by_name = theirs.grads(X, Y)
    assert_same(map(np.from_dlpack, [loss, *gradients.values()]), [expected, *by_name.values()])
    ours.update(gradients)
    theirs.update(by_name)
    assert_same(ours.parameters.values(), theirs.parameters.values())


def test_results_are_of_the_kind_of_the_arguments(learners):
    torch = pytest.importorskip("torch")
    ours, theirs = learners
    x, y = torch.from_numpy(X), torch.from_numpy(Y)
    y_hat, loss = ours.predict(x), ours.step(x, y)
    assert isinstance(y_hat, torch.Tensor) and loss.shape == ()
    assert_same([y_hat, loss], [theirs.predict(X), theirs.step(X, Y)])
    assert isinstance(ours.step(X, Y), np.float32)
    assert_same([ours.predict(torch.from_numpy(np.stack([X, X], 1))[:, 0].contiguous())], [ours.predict(X)])


@pytest.mark.parametrize(
    ("array", "error", "says"),
    [
        (np.asfortranarray(X), ValueError, "predict: x must lie row by row in memory, but it does not"),
        (X.astype(np.float64), TypeError, "predict: x must be float32, but it is float64"),
        (X[:, :3].copy(), ValueError, r"predict: x must have shape \(6, 4\)"),
    ],
)
def test_arrays_of_other_libraries_are_checked(learners, array, error, says):
    with pytest.raises(error, match=says):
        learners[0].predict(Tensor(array))


def test_misaligned_arrays_are_copied(learners):
    bytes = np.zeros(X.nbytes + 4, np.uint8)
    x = bytes[4:].view(np.float32).reshape(X.shape)
    x[:] = X
    assert_same([np.from_dlpack(learners[0].predict(Tensor(x)))], [learners[1].predict(X)])


@pytest.mark.parametrize("dtype", [d for d in Dtype if d is not Dtype.bfloat16])
def test_every_dtype_is_exchanged(models, dtype):
    device = models[0].library
    array = np.arange(6).astype(dtype.numpy).reshape(2, 3)
    taken = device.taken(Tensor(array), "x")
    assert (taken.shape, taken.dtype) == (array.shape, array.dtype)
    assert np.array_equal(taken.get(), array)
    assert np.array_equal(np.from_dlpack(taken.copy()), array)


def test_memory_is_freed_with_its_owner():
    model = emit(line(name="freed"), "cuda").load(simulate=True)
    device = model.library
    learner = model().learner()
    kept = np.from_dlpack(learner.predict(Tensor(X)))
    learner.predict(Tensor(X)).__dlpack__()  # a capsule that nobody takes
    assert len(dlpack._exported) == 1
    expected = kept.copy()
    places = [array.address for table in learner._tables.values() for array in table.arrays.values()]
    free = device._library["catgrad_free"]
    del learner
    gc.collect()
    # The simulator refuses to free memory that is not allocated.
    assert np.array_equal(kept, expected)
    del kept
    gc.collect()
    assert not dlpack._exported
    arrays = [a for a in gc.get_objects() if type(a) is DeviceArray and a.device is device]
    assert [a.address for a in arrays] == [device._workspace.address]
    assert all(free(place) for place in map(dlpack.c_void_p, places))


def test_threads_take_turns(models):
    model, found = models[0](), {}
    xs = [RNG.normal(size=(20 * (i + 1), 4)).astype(np.float32) for i in range(3)]

    def work(i):
        found[i] = [float(model.loss(*P, xs[i], xs[i][:, :3])[0]) for _ in range(10)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, x in enumerate(xs):
        np.testing.assert_allclose(found[i], models[1]().loss(*P, x, x[:, :3])[0], rtol=1e-5)
        assert len(set(found[i])) == 1


def test_indices_out_of_range_are_refused_and_leave_the_tables():
    batch = NdArrayType((Dim("batch"),), Dtype.int32)
    model = layers.embedding(batch, 5, NdArrayType((3,)))
    learner = emit(Task(model, sgd(0.1), mse, "rows"), "cuda").load(simulate=True)().learner()
    before, y = dict(learner.parameters), np.zeros((2, 3))
    for wrong in (-1, 5):
        with pytest.raises(IndexError, match="step: an index must lie inside its array"):
            learner.step(np.int32([0, wrong]), y)
    assert all(np.array_equal(before[name], array) for name, array in learner.parameters.items())
    learner.step(np.int32([0, 4]), y)


def test_a_device_without_room(models, learners):
    with pytest.raises(MemoryError, match="the device must have 2251799813685248 bytes of memory"):
        models[0].library.empty((2**49,), np.dtype(np.float32))
    assert_same([learners[0].step(X, Y)], [learners[1].step(X, Y)])


def test_a_failed_check_of_the_simulator_is_reported():
    function = lower(build(lambda x: x + 1, [NdArrayType((3,))]), "f")
    artifact = get_backend("cuda").emit(Program("wrong", (function,)))
    name = "wrong.cu"
    source = artifact.files[name].replace("<<<1, 256", "<<<1, 2560")
    assert source != artifact.files[name]
    model = replace(artifact, files={**artifact.files, name: source})
    with pytest.raises(ToolError, match=r"must pass the checks of the simulator, but f fails: .*2560"):
        model.load(simulate=True)().f(np.float32([1, 2, 3]))


def test_without_a_gpu_the_error_names_the_simulator(monkeypatch):
    monkeypatch.delenv(SIMULATE, raising=False)
    monkeypatch.setattr("pathlib.Path.exists", lambda path: False)
    for load in (emit(line(), "cuda").load, lambda: emit(line(), "cuda").load(simulate=False)):
        with pytest.raises(ToolError, match=r"there is no NVIDIA GPU; use one .* or `load\(simulate=True\)`"):
            load()
    assert "load(simulate=True)" in get_backend("cuda").missing()


def test_compile_model_takes_the_target_by_name(monkeypatch):
    monkeypatch.setenv(SIMULATE, "1")
    batch = NdArrayType((Dim("batch"),))
    model = layers.dense(batch, NdArrayType((4,)), NdArrayType((3,)))
    outputs = []
    for target in ("cuda", "numpy"):
        CompiledModel, _, source = compile_model(model, sgd(0.1), mse, target=target)
        assert ("__global__" in source) == (target == "cuda")
        compiled = CompiledModel()
        p = compiled.step(*compiled.init(seed=0), X, Y)
        outputs.append(compiled.predict(*p, X)[0])
    assert_same(*outputs)


def test_fit_trains(learners):
    ours, theirs = learners
    histories = [fit(each, (X, Y), epochs=2, batch_size=4, progress=False) for each in (ours, theirs)]
    np.testing.assert_allclose(histories[0].losses, histories[1].losses, rtol=1e-4)


def test_a_program_without_tables():
    function = lower(build(lambda x: ops.sum(x) + 1, [NdArrayType((3,))]), "f")
    compiled = get_backend("cuda").emit(Program("case", (function,))).load(simulate=True)()
    [found] = compiled.f(np.float32([1, 2, 3]))
    assert found == 7


@pytest.mark.parametrize("name", ["int", "grid"])
def test_sizes_may_have_any_name(name):
    losses = []
    for target in ("cuda", "numpy"):
        learner = emit(line(Dim(name)), target).load()().learner()
        learner.parameters["dense.weight"] = P[0]
        losses.append([learner.step(X, Y), learner.step(X, Y)])
        if target == "cuda":
            learner.step_many(X[None], Y[None])
    assert_same(*losses)
